"""Mistakes in the tidy contract, each with the text that it replaces and what the linter says."""

FIRST_CODE = "        - invalid_cursor\n"
UNAUTHORIZED = '        "401": {$ref: "#/components/responses/MissingCredentials"}\n'

BROKEN = {
    "a template that Connexion would render": (
        "All of them.",
        "All {{of}} them.",
        "document: {{ is taken for a template",
    ),
    "a key given twice": (
        "      x-effect: read\n      x-least",
        "      x-effect: read\n      x-effect: read\n      x-least",
        "document: the key x-effect is given twice",
    ),
    "a bare date": (
        "title: Kettles",
        "title: 2026-11-21",
        "document: quote 2026-11-21, which YAML does not read as text",
    ),
    "a bare on": ("title: Kettles", "title: on", "document: quote on, which YAML does not read as text"),
    "a write without x-audit": (
        "      x-audit: [freeze.started]\n",
        "",
        "create_kettle: writes and has no x-audit",
    ),
    "a read with x-audit": (
        "      x-effect: read\n      x-least",
        "      x-effect: read\n      x-audit: []\n      x-least",
        "list_kettles: only reads and has an x-audit",
    ),
    "an unknown audit action": (
        "x-audit: [freeze.started]",
        "x-audit: [kettle.boiled]",
        "create_kettle: its x-audit kettle.boiled is not in rules/audit/actions.py",
    ),
    "invalid YAML": ("info: {title", "info: {title: {", "document: is not YAML"),
    "a broken reference": (
        "schemas/KettleList",
        "schemas/KettleLost",
        "list_kettles: #/components/schemas/KettleLost does not exist",
    ),
    "no operationId": ("      operationId: list_kettles\n", "", "GET /kettles: has no operationId"),
    "an operationId in camel case": (
        "operationId: list_kettles",
        "operationId: listKettles",
        "listKettles: its operationId is not snake_case",
    ),
    "an operationId given twice": (
        "operationId: create_kettle",
        "operationId: list_kettles",
        "list_kettles: its operationId is given twice",
    ),
    "no tag": (
        "      tags: [Kettles]\n      summary: List",
        "      summary: List",
        "list_kettles: needs exactly one tag",
    ),
    "an undeclared tag": (
        "tags: [Kettles]\n      summary: List",
        "tags: [Pots]\n      summary: List",
        "list_kettles: its tag Pots is not declared",
    ),
    "no summary": ("      summary: List kettles\n", "", "list_kettles: has no summary"),
    "no description": ("      description: All of them.\n", "", "list_kettles: has no description"),
    "no security": ("      security: []\n", "", "get_kettle: has no security"),
    "an unknown security scheme": (
        "security: []",
        "security: [{Cookie: []}]",
        "get_kettle: its security scheme Cookie does not exist",
    ),
    "a scope outside the vocabulary": (
        '"kettle:read"]}, {S',
        '"kettle:boil"]}, {S',
        "list_kettles: its scope kettle:boil is not one of the x-scopes of ApiKey",
    ),
    "a key without a scope": ('["kettle:read"]}, {S', "[]}, {S", "list_kettles: ApiKey names no scope"),
    "no effect": ("      security: []\n      x-effect: read\n", "      security: []\n", "get_kettle: has no x-effect"),
    "an unknown effect": (
        "      security: []\n      x-effect: read\n",
        "      security: []\n      x-effect: look\n",
        "get_kettle: x-effect must be one of read, write",
    ),
    "a body limit that is no number": (
        "      x-effect: write\n",
        "      x-effect: write\n      x-body-limit: 2MB\n",
        "create_kettle: x-body-limit must be a number of bytes",
    ),
    "a rate limit of its own where credentials are counted": (
        "      x-effect: write\n",
        "      x-effect: write\n      x-rate-limit: {parameter: kettleId, perMinute: 30}\n",
        "create_kettle: x-rate-limit has a path parameter and perMinute, where no credential is counted",
    ),
    "a malformed tool name": (
        "svc_list_kettles",
        "listKettles",
        "list_kettles: x-mcp-tool must look like svc_list_freezes",
    ),
    "a tool given twice": (
        "      x-effect: write\n",
        "      x-effect: write\n      x-mcp-tool: svc_list_kettles\n",
        "create_kettle: the tool svc_list_kettles is given twice",
    ),
    "a tool that keys cannot call": (
        "      x-effect: write\n",
        "      x-effect: write\n      x-mcp-tool: svc_buy_kettle\n",
        "create_kettle: is a tool, which keys and people must be able to call",
    ),
    "a tool whose success is not JSON": (
        "          content:\n            application/json:\n",
        "          content:\n            text/csv: {schema: {type: string}}\n            application/json:\n",
        "list_kettles: is a tool, and its success is not JSON",
    ),
    "a confirmation without a tool": (
        "      x-effect: write\n",
        "      x-effect: write\n      x-mcp-confirm: true\n",
        "create_kettle: x-mcp-confirm is true or false, and for tools that write",
    ),
    "a confirmation of a read": (
        "      x-mcp-tool: svc_list_kettles\n",
        "      x-mcp-tool: svc_list_kettles\n      x-mcp-confirm: false\n",
        "list_kettles: x-mcp-confirm is true or false, and for tools that write",
    ),
    "a session without a least role": (
        "      x-least-role: viewer\n",
        "",
        "list_kettles: accepts sessions and has no x-least-role",
    ),
    "a least role without sessions": (
        "      security: []\n",
        "      security: []\n      x-least-role: viewer\n",
        "get_kettle: accepts no sessions and has an x-least-role",
    ),
    "a list without nextCursor": (
        "operationId: get_kettle\n",
        "operationId: list_kettle\n",
        "list_kettle: is called a list and returns no nextCursor",
    ),
    "a path parameter that is not declared": (
        "/kettles/{kettleId}",
        "/kettles/{potId}",
        "get_kettle: path parameter potId is not both in the path and declared",
    ),
    "a 201 without a link": ("self: {operationId", "it: {operationId", "create_kettle: its 201 has no link self"),
    "no success": ('        "201":', '        "301":', "create_kettle: needs exactly one 2xx response"),
    "a link to an unknown operation": (
        "get: {operationId: get_kettle",
        "get: {operationId: get_pot",
        "list_kettles: its link get names no operation",
    ),
    "a link with an unknown parameter": (
        'parameters: {kettleId: "$response.body#/data/0/id"}',
        'parameters: {potId: "$response.body#/data/0/id"}',
        "list_kettles: its link get fills potId, which get_kettle does not take",
    ),
    "a code outside the catalogue": (
        FIRST_CODE,
        "        - too_cold\n" + FIRST_CODE,
        "list_kettles: its code too_cold is not in the catalogue",
    ),
    "a reserved code": (
        FIRST_CODE,
        "        - never_said\n" + FIRST_CODE,
        "list_kettles: its code never_said is reserved and never returned",
    ),
    "a status without a code": (
        UNAUTHORIZED,
        UNAUTHORIZED + UNAUTHORIZED.replace("401", "418"),
        "list_kettles: documents 418, which none of its codes has",
    ),
    "a code whose status has no shared response": (
        "too_hot: {status: 422",
        "too_hot: {status: 418",
        "create_kettle: can return too_hot and has no 418 response",
    ),
    "a parameter's code outside the catalogue": (
        "x-not-found: not_found",
        "x-not-found: kettle_not_found",
        "components.parameters.KettleId: kettle_not_found is not in the catalogue",
    ),
    "a property's code outside the catalogue": (
        "x-error-code: too_hot",
        "x-error-code: too_cold",
        "components.schemas.CreateKettleRequest: too_cold is not in the catalogue",
    ),
    "a catalogue row without a meaning": (
        ", meaning: Who are you., example",
        ", example",
        "x-error-catalogue.missing_credentials: has no meaning",
    ),
    "a catalogue row with an unknown key": (
        "meaning: Who are you.",
        "meaning: Who are you., hint: none",
        "x-error-catalogue.missing_credentials.hint: has the unknown key hint",
    ),
    "a catalogue row without an example": (
        ", example: {message: Who are you.}",
        "",
        "x-error-catalogue.missing_credentials: has no message in its example",
    ),
    "a catalogue row without an example of its second status": (
        " alsoExample: {message: A property is wrong., details: [{path: /heat}]},",
        "",
        "x-error-catalogue.invalid_parameter: has no message in its alsoExample",
    ),
    "a catalogue row whose example has no message": (
        ", example: {message: Who are you.}",
        ", example: {text: Who are you.}",
        "x-error-catalogue.missing_credentials: has no message in its example",
    ),
    "a code in camel case": ("  never_said:", "  neverSaid:", "x-error-catalogue.neverSaid: is not snake_case"),
    "a cross-cutting code outside the catalogue": (
        "[invalid_parameter, missing",
        "[invalid_pot, invalid_parameter, missing",
        "x-cross-cutting-errors.0: invalid_pot is not in the catalogue",
    ),
    "an unknown extension of an operation": (
        "      security: []\n",
        "      security: []\n      x-colour: red\n",
        "get_kettle: the key x-colour is unknown here",
    ),
    "an unknown extension of the document": (
        "servers: [{url: /}]",
        "servers: [{url: /}]\nx-colour: red",
        "x-colour: the key x-colour is unknown here",
    ),
    "an extension in the wrong place": (
        "maximum: 100, x-error-code",
        "maximum: 100, x-effect: read, x-error-code",
        "components.schemas.CreateKettleRequest: the key x-effect is unknown here",
    ),
    "a key beside a reference": (
        'items: {$ref: "#/components/schemas/Kettle"}',
        'items: {$ref: "#/components/schemas/Kettle", description: One.}',
        "components.schemas.KettleList: has keys beside $ref, which are ignored",
    ),
    "null without a type": (
        "nextCursor: {type: string, nullable: true}",
        "nextCursor: {nullable: true}",
        "components.schemas.KettleList: is nullable and has no type, so null is refused",
    ),
    "a component without a description": (
        "      description: It boils.\n",
        "",
        "components.schemas.Kettle: has no description",
    ),
    "an unbounded integer": (
        "heat: {type: integer, minimum: 0, maximum: 100",
        "heat: {type: integer, minimum: 0",
        "components.schemas.CreateKettleRequest: heat needs maximum",
    ),
    "an unbounded string": (
        "items: {type: string, maxLength: 10}",
        "items: {type: string}",
        "components.schemas.CreateKettleRequest: an item of names needs maxLength or enum or pattern",
    ),
    "an unbounded array": (
        "type: array, maxItems: 3",
        "type: array",
        "components.schemas.CreateKettleRequest: names needs maxItems",
    ),
    "an unbounded parameter": (
        "schema: {type: string, maxLength: 64}",
        "schema: {type: string}",
        "paths./kettles/{kettleId}.parameters: kettleId needs maxLength or enum or pattern",
    ),
    "an open request": (
        "      additionalProperties: false\n",
        "",
        "components.schemas.CreateKettleRequest: the body is sent by clients and needs additionalProperties: false",
    ),
    "an unbounded map": (
        "{type: array, maxItems: 3, items: {type: string, maxLength: 10}",
        "{type: object, additionalProperties: {type: string, maxLength: 10}",
        "components.schemas.CreateKettleRequest: names needs maxProperties",
    ),
    "an unbounded value of a map": (
        "{type: array, maxItems: 3, items: {type: string, maxLength: 10}",
        "{type: object, maxProperties: 3, additionalProperties: {type: string}",
        "components.schemas.CreateKettleRequest: a value of names needs maxLength or enum or pattern",
    ),
    "a closed answer": (
        "      additionalProperties: true\n",
        "      additionalProperties: false\n",
        "components.schemas.Kettle: is in an answer and is closed",
    ),
    "an enum in an answer": (
        "x-extensible-enum: [red, blue]",
        "enum: [red, blue]",
        "components.schemas.Kettle: is in an answer and has enum",
    ),
    "values in the pattern of an answer": (
        "x-extensible-enum: [red, blue]",
        "pattern: ^(red|blue)$",
        "components.schemas.Kettle: lists its values in a pattern",
    ),
    "a discriminator in an answer": (
        "      description: It boils.\n",
        "      description: It boils.\n      discriminator: {propertyName: id}\n",
        "components.schemas.Kettle: is in an answer and has a discriminator",
    ),
    "a value listed twice": (
        "x-extensible-enum: [red, blue]",
        "x-extensible-enum: [red, red]",
        "components.schemas.Kettle: needs type: string, and in x-extensible-enum a list of strings, each once",
    ),
    "values without a description": (
        ', description: "How it looks. One of `red` or `blue`."',
        "",
        "components.schemas.Kettle: has x-extensible-enum and no description",
    ),
    "open values in a request": (
        "enum: [hot, cold], description: How it shall",
        "x-extensible-enum: [hot, cold], description: How it shall",
        "components.schemas.CreateKettleRequest: is in a request and has x-extensible-enum",
    ),
    "an enum of its own in a request": (
        "{type: string, enum: [hot, cold], description: How it shall be.}\n",
        '{$ref: "#/components/schemas/Heat"}\n    Heat: {type: string, enum: [hot, cold], description: Not used.}\n',
        "components.schemas.Heat: is an enum of its own",
    ),
    "a filter with other values than the property": (
        "enum: [red, blue]}}",
        "enum: [red, green]}}",
        "list_kettles: colour does not accept the values of x-extensible-enum",
    ),
    "a form of unknown properties": (
        "      description: A kettle to buy.\n",
        "      description: A kettle to buy.\n      x-forms: [[heat], [cold]]\n",
        "components.schemas.CreateKettleRequest: has x-forms that do not name optional properties",
    ),
    "a schema with the name of a built-in": (
        "    CreateKettleRequest:\n",
        "    Error: {type: string, description: Not used.}\n    CreateKettleRequest:\n",
        "components.schemas.Error: is a name that languages have already",
    ),
    "a schema with the name of an operation": (
        "    CreateKettleRequest:\n",
        "    ListKettles: {type: string, description: Not used.}\n    CreateKettleRequest:\n",
        "components.schemas.ListKettles: has the name of list_kettles",
    ),
    "a schema with the name of an operation's parameters": (
        "    CreateKettleRequest:\n",
        "    GetKettleRequest: {type: string, description: Not used.}\n    CreateKettleRequest:\n",
        "components.schemas.GetKettleRequest: has the name of the parameters of get_kettle",
    ),
    "a body without an example": (
        "            example: {heat: 90, names: [whistler]}\n",
        "",
        "create_kettle: its application/json body has no example",
    ),
    "a success without an example": (
        "              example: {id: one, boughtAt: null}\n",
        "",
        "create_kettle: its 201 application/json has no example",
    ),
    "an error response without an example": (
        ", example: {error: {code: too_hot}}",
        "",
        "components.responses.Refused: has no example",
    ),
    "a path parameter without an example": (
        "      example: one\n",
        "",
        "paths./kettles/{kettleId}.parameters: parameter kettleId has no example",
    ),
    "an invalid example": (
        "example: {id: one, boughtAt: null}",
        "example: {id: one, boughtAt: soon}",
        "create_kettle: the example's boughtAt is not valid",
    ),
    "an invalid shared example": (
        "Kettle: {value: {id: one,",
        "Kettle: {value: {id: 1,",
        "get_kettle: the example's id is not valid",
    ),
    "an invalid example of a property": (
        "id: {type: string, example: one}",
        "id: {type: string, example: 1}",
        "components.schemas.Kettle: the example's value is not valid",
    ),
}
