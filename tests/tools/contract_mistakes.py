"""Mistakes in the tidy contract: what the linter says → the text, and what it is replaced by."""

BROKEN = {
    "document: x-effect given twice, line 5": (
        "      x-effect: read\n      x-least",
        "      x-effect: read\n      x-effect: read\n      x-least",
    ),
    "create_kettle: writes and has no x-audit": ("      x-audit: [freeze.started]\n", ""),
    "list_kettles: only reads and has an x-audit": (
        "      x-effect: read\n      x-least",
        "      x-effect: read\n      x-audit: []\n      x-least",
    ),
    "create_kettle: its x-audit kettle.boiled is not in rules/audit/actions.py": (
        "x-audit: [freeze.started]",
        "x-audit: [kettle.boiled]",
    ),
    "document: not YAML": ("info: {title", "info: {title: {"),
    "list_kettles: #/components/schemas/KettleLost does not exist": ("schemas/KettleList", "schemas/KettleLost"),
    "GET /kettles: has no operationId": ("      operationId: list_kettles\n", ""),
    "listKettles: its operationId is not snake_case": ("operationId: list_kettles", "operationId: listKettles"),
    "list_kettles: its tag follows from its file": (
        "      operationId: list_kettles\n",
        "      operationId: list_kettles\n      tags: [Pots]\n",
    ),
    "document: belongs to none of the tags in shared.yaml": ("name: Kettles,", "name: Pots,"),
    "servers: servers stands in shared.yaml": ("paths:\n", "servers: []\npaths:\n"),
    "paths: paths stands in files of tags": ("openapi: 3.0.3\n", "openapi: 3.0.3\npaths: {}\n"),
    "components.schemas.ErrorResponse: stands in shared.yaml already": (
        "  responses:\n    Refused",
        "  schemas: {ErrorResponse: {type: object}}\n  responses:\n    Refused",
    ),
    "components.responses.Refused: #/components/schemas/Kettle stands in kettles.yaml: move it to shared.yaml": (
        "schema: {type: object}, example: {error",
        "schema: {$ref: '#/components/schemas/Kettle'}, example: {error",
    ),
    "list_kettles: has no summary": ("      summary: List kettles\n", ""),
    "list_kettles: has no description": ("      description: All of them.\n", ""),
    "get_kettle: has no security": ("      security: []\n", ""),
    "get_kettle: its security scheme Cookie does not exist": ("security: []", "security: [{Cookie: []}]"),
    "list_kettles: its scope kettle:boil is not one of the x-scopes of ApiKey": (
        "'kettle:read']}, {S",
        "'kettle:boil']}, {S",
    ),
    "list_kettles: ApiKey names no scope": ("['kettle:read']}, {S", "[]}, {S"),
    "get_kettle: has no x-effect": ("      security: []\n      x-effect: read\n", "      security: []\n"),
    "get_kettle: x-effect must be one of read, write": (
        "      security: []\n      x-effect: read\n",
        "      security: []\n      x-effect: look\n",
    ),
    "create_kettle: x-body-limit must be a number of bytes": (
        "      x-effect: write\n",
        "      x-effect: write\n      x-body-limit: 2MB\n",
    ),
    "create_kettle: x-rate-limit has a path parameter and perMinute, where no credential is counted": (
        "      x-effect: write\n",
        "      x-effect: write\n      x-rate-limit: {parameter: kettleId, perMinute: 30}\n",
    ),
    "list_kettles: x-mcp-tool must look like svc_list_freezes": ("svc_list_kettles", "listKettles"),
    "create_kettle: the tool svc_list_kettles is given twice": (
        "      x-effect: write\n",
        "      x-effect: write\n      x-mcp-tool: svc_list_kettles\n",
    ),
    "create_kettle: is a tool, which keys and people must be able to call": (
        "      x-effect: write\n",
        "      x-effect: write\n      x-mcp-tool: svc_buy_kettle\n",
    ),
    "list_kettles: is a tool, and its success is not JSON": (
        "          content:\n            application/json:\n",
        "          content:\n            text/csv: {schema: {type: string}}\n            application/json:\n",
    ),
    "create_kettle: x-mcp-confirm is true or false, and for tools that write": (
        "      x-effect: write\n",
        "      x-effect: write\n      x-mcp-confirm: true\n",
    ),
    "list_kettles: x-mcp-confirm is true or false, and for tools that write": (
        "      x-mcp-tool: svc_list_kettles\n",
        "      x-mcp-tool: svc_list_kettles\n      x-mcp-confirm: false\n",
    ),
    "list_kettles: accepts sessions and has no x-least-role": ("      x-least-role: viewer\n", ""),
    "get_kettle: accepts no sessions and has an x-least-role": (
        "      security: []\n",
        "      security: []\n      x-least-role: viewer\n",
    ),
    "list_kettle: is called a list and returns no nextCursor": (
        "operationId: get_kettle\n",
        "operationId: list_kettle\n",
    ),
    "create_kettle: its 201 has no link self": ("self: {operationId", "it: {operationId"),
    "create_kettle: needs exactly one 2xx response": ("        '201':", "        '301':"),
    "list_kettles: its link get names no operation": ("get: {operationId: get_kettle", "get: {operationId: get_pot"),
    "list_kettles: its link get fills potId, which get_kettle does not take": (
        "{kettleId: '$response.body#/data/0/id'}",
        "{potId: '$response.body#/data/0/id'}",
    ),
    "list_kettles: its code too_cold is not in the catalogue": (
        "      x-mcp-tool: svc_list_kettles\n",
        "      x-mcp-tool: svc_list_kettles\n      x-errors: [too_cold]\n",
    ),
    "list_kettles: its code never_said is reserved and never returned": (
        "      x-mcp-tool: svc_list_kettles\n",
        "      x-mcp-tool: svc_list_kettles\n      x-errors: [never_said]\n",
    ),
    "list_kettles: documents 418, which none of its codes has": (
        "        '200':\n          description: A page.\n",
        "        '418': {description: Tea.}\n        '200':\n          description: A page.\n",
    ),
    "create_kettle: can return too_hot and has no 418 response": (
        "too_hot: {status: 422",
        "too_hot: {status: 418",
    ),
    "components.parameters.KettleId: kettle_not_found is not in the catalogue": (
        "x-not-found: not_found",
        "x-not-found: kettle_not_found",
    ),
    "components.schemas.CreateKettleRequest: too_cold is not in the catalogue": (
        "x-error-code: too_hot",
        "x-error-code: too_cold",
    ),
    "x-error-catalogue.missing_credentials: has no meaning": (", meaning: Who are you., example", ", example"),
    "x-error-catalogue.missing_credentials.hint: has the unknown key hint": (
        "meaning: Who are you.",
        "meaning: Who are you., hint: none",
    ),
    "x-error-catalogue.missing_credentials: has no message in its example": (
        ", example: {message: Who are you.}",
        "",
    ),
    "x-error-catalogue.invalid_parameter: has no message in its alsoExample": (
        " alsoExample: {message: A property is wrong., details: [{path: /heat}]},",
        "",
    ),
    "x-error-catalogue.neverSaid: is not snake_case": ("  never_said:", "  neverSaid:"),
    "x-cross-cutting-errors: invalid_pot is not in the catalogue": (
        "[invalid_parameter, missing",
        "[invalid_pot, invalid_parameter, missing",
    ),
    "get_kettle: the key x-colour is unknown here": (
        "      security: []\n",
        "      security: []\n      x-colour: red\n",
    ),
    "x-colour: the key x-colour is unknown here": ("servers: [{url: /}]", "servers: [{url: /}]\nx-colour: red"),
    "components.schemas.CreateKettleRequest: the key x-effect is unknown here": (
        "maximum: 100, x-error-code",
        "maximum: 100, x-effect: read, x-error-code",
    ),
    "components.schemas.KettleList: is nullable and has no type, so null is refused": (
        "nextCursor: {type: string, nullable: true}",
        "nextCursor: {nullable: true}",
    ),
    "components.schemas.Kettle: has no description": ("      description: It boils.\n", ""),
    "components.schemas.CreateKettleRequest: heat needs maximum": (
        "heat: {type: integer, minimum: 0, maximum: 100",
        "heat: {type: integer, minimum: 0",
    ),
    "components.schemas.CreateKettleRequest: an item of names needs maxLength or enum or pattern": (
        "items: {type: string, maxLength: 10}",
        "items: {type: string}",
    ),
    "components.schemas.CreateKettleRequest: names needs maxItems": ("type: array, maxItems: 3", "type: array"),
    "paths./kettles/{kettleId}.parameters: kettleId needs maxLength or enum or pattern": (
        "schema: {type: string, maxLength: 64}",
        "schema: {type: string}",
    ),
    "components.schemas.CreateKettleRequest: the body is sent by clients and needs additionalProperties: false": (
        "      additionalProperties: false\n",
        "",
    ),
    "components.schemas.CreateKettleRequest: names needs maxProperties": (
        "{type: array, maxItems: 3, items: {type: string, maxLength: 10}",
        "{type: object, additionalProperties: {type: string, maxLength: 10}",
    ),
    "components.schemas.CreateKettleRequest: a value of names needs maxLength or enum or pattern": (
        "{type: array, maxItems: 3, items: {type: string, maxLength: 10}",
        "{type: object, maxProperties: 3, additionalProperties: {type: string}",
    ),
    "components.schemas.Kettle: is in an answer and is closed": (
        "      required: [id]\n",
        "      required: [id]\n      additionalProperties: false\n",
    ),
    "components.schemas.Kettle: is in an answer and has enum": ("x-extensible-enum: [red, blue]", "enum: [red, blue]"),
    "components.schemas.Kettle: lists its values in a pattern": (
        "x-extensible-enum: [red, blue]",
        "pattern: ^(red|blue)$",
    ),
    "components.schemas.Kettle: is in an answer and has a discriminator": (
        "      description: It boils.\n",
        "      description: It boils.\n      discriminator: {propertyName: id}\n",
    ),
    "components.schemas.Kettle: needs type: string, and in x-extensible-enum a list of strings, each once": (
        "x-extensible-enum: [red, blue]",
        "x-extensible-enum: [red, red]",
    ),
    "components.schemas.Kettle: has x-extensible-enum and no description": (
        ", description: How it looks.",
        "",
    ),
    "components.schemas.CreateKettleRequest: is in a request and has x-extensible-enum": (
        "enum: [hot, cold], description: How it shall",
        "x-extensible-enum: [hot, cold], description: How it shall",
    ),
    "components.schemas.Heat: is an enum of its own": (
        "{type: string, enum: [hot, cold], description: How it shall be.}\n",
        "{$ref: '#/components/schemas/Heat'}\n    Heat: {type: string, enum: [hot, cold], description: Unused.}\n",
    ),
    "list_kettles: colour does not accept the values of x-extensible-enum": (
        "enum: [red, blue]}}",
        "enum: [red, green]}}",
    ),
    "components.schemas.CreateKettleRequest: has x-forms that do not name optional properties": (
        "      description: A kettle to buy.\n",
        "      description: A kettle to buy.\n      x-forms: [[heat], [cold]]\n",
    ),
    "components.schemas.Error: is a name that languages have already": (
        "    CreateKettleRequest:\n",
        "    Error: {type: string, description: Not used.}\n    CreateKettleRequest:\n",
    ),
    "components.schemas.ListKettles: has the name of list_kettles": (
        "    CreateKettleRequest:\n",
        "    ListKettles: {type: string, description: Not used.}\n    CreateKettleRequest:\n",
    ),
    "components.schemas.GetKettleRequest: has the name of the parameters of get_kettle": (
        "    CreateKettleRequest:\n",
        "    GetKettleRequest: {type: string, description: Not used.}\n    CreateKettleRequest:\n",
    ),
    "create_kettle: its application/json body has no example": (
        "            example: {heat: 90, names: [whistler]}\n",
        "",
    ),
    "create_kettle: its 201 application/json has no example": (
        "              example: {id: one, boughtAt: null}\n",
        "",
    ),
    "components.responses.Refused: has no example": (", example: {error: {code: too_hot}}", ""),
    "paths./kettles/{kettleId}.parameters: parameter kettleId has no example": ("      example: one\n", ""),
    "create_kettle: the example's boughtAt is not valid": (
        "example: {id: one, boughtAt: null}",
        "example: {id: one, boughtAt: soon}",
    ),
    "get_kettle: the example's id is not valid": ("Kettle: {value: {id: one,", "Kettle: {value: {id: 1,"),
    "components.schemas.Kettle: the example's value is not valid": (
        "id: {type: string, example: one}",
        "id: {type: string, example: 1}",
    ),
    "create_kettle: its code too_hot follows from the rest, so leave it out": (
        "      x-least-role: member\n",
        "      x-least-role: member\n      x-errors: [too_hot]\n",
    ),
    "create_kettle: its code missing_credentials follows from the rest, so leave it out": (
        "      x-least-role: member\n",
        "      x-least-role: member\n      x-errors: [missing_credentials]\n",
    ),
    "get_kettle: its code not_found follows": ("security: []\n", "security: []\n      x-errors: [not_found]\n"),
    "get_kettle: its code insufficient_scope cannot be answered": (
        "      security: []\n",
        "      security: []\n      x-errors: [insufficient_scope]\n",
    ),
    "list_kettles: its parameter Limit follows from the rest, so leave it out": (
        "parameters: [{name: colour",
        "parameters: [{$ref: '#/components/parameters/Limit'}, {name: colour",
    ),
    "list_kettles: only writes take an IdempotencyKey": (
        "parameters: [{name: colour",
        "parameters: [{$ref: '#/components/parameters/IdempotencyKey'}, {name: colour",
    ),
    "paths./kettles/{kettleId}.parameters: it follows from the rest, so leave it out": (
        "  /kettles/{kettleId}:\n",
        "  /kettles/{kettleId}:\n    parameters: [{$ref: '#/components/parameters/KettleId'}]\n",
    ),
    "get_kettle: its header X-Request-Id follows from the rest, so leave it out": (
        "          description: One kettle.\n",
        "          description: One.\n          headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}\n",
    ),
    "list_kettles: its header Idempotency-Replayed does not come with it": (
        "          description: A page.\n",
        "          description: A page.\n          headers: {Idempotency-Replayed: {schema: {type: string}}}\n",
    ),
    "create_kettle: #/components/responses/Conflict does not exist": (
        "        '201':\n",
        "        '409': {$ref: '#/components/responses/Conflict'}\n        '201':\n",
    ),
    "components.schemas.Kettle: that an answer is open follows from the rest, so leave it out": (
        "      required: [id]\n",
        "      required: [id]\n      additionalProperties: true\n",
    ),
    "components.schemas.Kettle: the sentence with the values follows from the rest, so leave it out": (
        "description: How it looks.}",
        "description: How it looks. One of `red` or `blue`.}",
    ),
}
