"""Mistakes in the tidy contract: what the linter says → the text, and what it is replaced by."""


def _below(line: str, added: str) -> tuple[str, str]:
    """Return a mistake that adds a line below the first one that is `line`, as deep as that."""
    return f"      {line}\n", f"      {line}\n      {added}\n"


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
    "list_kettles: its tag follows from its file": _below("operationId: list_kettles", "tags: [Pots]"),
    "document: belongs to none of the tags in shared.yaml": ("name: Kettles,", "name: Pots,"),
    "servers: servers stands in shared.yaml": ("paths:\n", "servers: []\npaths:\n"),
    "paths: paths stands in files of tags": ("openapi: 3.0.3\n", "openapi: 3.0.3\npaths: {}\n"),
    "ErrorResponse: stands in shared.yaml already": (
        "  responses:\n    Refused",
        "  schemas: {ErrorResponse: {type: object}}\n  responses:\n    Refused",
    ),
    "Refused: #/components/schemas/Kettle stands in kettles.yaml: move it to shared.yaml": (
        "{type: object}, ex",
        "{$ref: '#/components/schemas/Kettle'}, ex",
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
    "create_kettle: x-body-limit must be a number of bytes": _below("x-effect: write", "x-body-limit: 2MB"),
    "create_kettle: x-rate-limit has a path parameter and perMinute, where no credential is counted": _below(
        "x-effect: write", "x-rate-limit: {parameter: kettleId, perMinute: 30}"
    ),
    "list_kettles: x-mcp-tool must look like svc_list_freezes": ("svc_list_kettles", "listKettles"),
    "create_kettle: the tool svc_list_kettles is given twice": _below(
        "x-effect: write", "x-mcp-tool: svc_list_kettles"
    ),
    "create_kettle: is a tool, which keys and people must be able to call": _below(
        "x-effect: write", "x-mcp-tool: svc_buy_kettle"
    ),
    "list_kettles: is a tool, and its success is not JSON": (
        "          content:\n            application/json:\n",
        "          content:\n            text/csv: {schema: {type: string}}\n            application/json:\n",
    ),
    "create_kettle: x-mcp-confirm is true or false, and for tools that write": _below(
        "x-effect: write", "x-mcp-confirm: true"
    ),
    "list_kettles: x-mcp-confirm is true or false, and for tools that write": _below(
        "x-mcp-tool: svc_list_kettles", "x-mcp-confirm: false"
    ),
    "list_kettles: accepts sessions and has no x-least-role": ("      x-least-role: viewer\n", ""),
    "get_kettle: accepts no sessions and has an x-least-role": _below("security: []", "x-least-role: viewer"),
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
    "list_kettles: its code too_cold is not in the catalogue": _below(
        "x-mcp-tool: svc_list_kettles", "x-errors: [too_cold]"
    ),
    "list_kettles: its code never_said is reserved and never returned": _below(
        "x-mcp-tool: svc_list_kettles", "x-errors: [never_said]"
    ),
    "list_kettles: documents 418, which none of its codes has": (
        "        '200':\n          description: A page.\n",
        "        '418': {description: Tea.}\n        '200':\n          description: A page.\n",
    ),
    "create_kettle: can return too_hot and has no 418 response": ("too_hot: {status: 422", "too_hot: {status: 418"),
    "KettleId: kettle_not_found is not in the catalogue": ("x-not-found: not_found", "x-not-found: kettle_not_found"),
    "CreateKettleRequest: too_cold is not in the catalogue": ("x-error-code: too_hot", "x-error-code: too_cold"),
    "missing_credentials: has no meaning": (", meaning: Who are you., example", ", example"),
    "missing_credentials.hint: has the unknown key hint": (
        "meaning: Who are you.",
        "meaning: Who are you., hint: none",
    ),
    "missing_credentials: has no message in its example": (", example: {message: Who are you.}", ""),
    "invalid_parameter: has no message in its alsoExample": (
        " alsoExample: {message: A property is wrong., details: [{path: /heat}]},",
        "",
    ),
    "neverSaid: is not snake_case": ("  never_said:", "  neverSaid:"),
    "x-cross-cutting-errors: invalid_pot is not in the catalogue": (
        "[invalid_parameter, missing",
        "[invalid_pot, invalid_parameter, missing",
    ),
    "get_kettle: the key x-colour is unknown here": _below("security: []", "x-colour: red"),
    "x-colour: the key x-colour is unknown here": ("servers: [{url: /}]", "servers: [{url: /}]\nx-colour: red"),
    "CreateKettleRequest: the key x-effect is unknown here": (
        "maximum: 100, x-error-code",
        "maximum: 100, x-effect: read, x-error-code",
    ),
    "KettleList: is nullable and has no type, so null is refused": (
        "{type: string, nullable: true}",
        "{nullable: true}",
    ),
    "Kettle: has no description": ("      description: It boils.\n", ""),
    "CreateKettleRequest: heat needs maximum": ("minimum: 0, maximum: 100, x-err", "minimum: 0, x-err"),
    "CreateKettleRequest: an item of names needs maxLength or enum or pattern": ("string, maxLength: 10}", "string}"),
    "CreateKettleRequest: names needs maxItems": ("type: array, maxItems: 3", "type: array"),
    "paths./kettles/{kettleId}.parameters: kettleId needs maxLength or enum or pattern": (
        "string, maxLength: 64",
        "string",
    ),
    "CreateKettleRequest: the body is sent by clients": ("      additionalProperties: false\n", ""),
    "CreateKettleRequest: names needs maxProperties": ("array, maxItems: 3, items", "object, additionalProperties"),
    "CreateKettleRequest: a value of names needs maxLength or enum or pattern": (
        "{type: array, maxItems: 3, items: {type: string, maxLength: 10}",
        "{type: object, maxProperties: 3, additionalProperties: {type: string}",
    ),
    "Kettle: is in an answer and is closed": _below("required: [id]", "additionalProperties: false"),
    "Kettle: is in an answer and has enum": ("x-extensible-enum: [red, blue]", "enum: [red, blue]"),
    "Kettle: lists its values in a pattern": ("x-extensible-enum: [red, blue]", "pattern: ^(red|blue)$"),
    "Kettle: is in an answer and has a discriminator": _below(
        "description: It boils.", "discriminator: {propertyName: id}"
    ),
    "Kettle: needs type: string, and in x-extensible-enum a list of strings, each once": (
        "[red, blue], desc",
        "[red, red], desc",
    ),
    "Kettle: has x-extensible-enum and no description": (", description: How it looks.", ""),
    "CreateKettleRequest: is in a request and has x-extensible-enum": (
        "enum: [hot, cold], desc",
        "x-extensible-enum: [hot, cold], desc",
    ),
    "Heat: is an enum of its own": (
        "{type: string, enum: [hot, cold], description: How it shall be.}\n",
        "{$ref: '#/components/schemas/Heat'}\n    Heat: {type: string, enum: [hot, cold], description: Unused.}\n",
    ),
    "list_kettles: colour does not accept the values of x-extensible-enum": (
        "enum: [red, blue]}}",
        "enum: [red, green]}}",
    ),
    "CreateKettleRequest: has x-forms that do not name optional properties": _below(
        "description: A kettle to buy.", "x-forms: [[heat], [cold]]"
    ),
    "Error: is a name that languages have already": (
        "    CreateKettleRequest:\n",
        "    Error: {type: string, description: Not used.}\n    CreateKettleRequest:\n",
    ),
    "ListKettles: has the name of list_kettles": (
        "    CreateKettleRequest:\n",
        "    ListKettles: {type: string, description: Not used.}\n    CreateKettleRequest:\n",
    ),
    "GetKettleRequest: has the name of the parameters of get_kettle": (
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
    "Refused: has no example": (", example: {error: {code: too_hot}}", ""),
    "paths./kettles/{kettleId}.parameters: parameter kettleId has no example": ("      example: one\n", ""),
    "create_kettle: the example's boughtAt is not valid": (
        "example: {id: one, boughtAt: null",
        "example: {id: one, boughtAt: soon",
    ),
    "get_kettle: the example's id is not valid": ("Kettle: {value: {id: one,", "Kettle: {value: {id: 1,"),
    "Kettle: the example's value is not valid": ("id: {type: string, example: one}", "id: {type: string, example: 1}"),
    "create_kettle: its code too_hot follows from the rest": _below("x-least-role: member", "x-errors: [too_hot]"),
    "create_kettle: its code missing_credentials follows from the rest": _below(
        "x-least-role: member", "x-errors: [missing_credentials]"
    ),
    "get_kettle: its code not_found follows": ("security: []\n", "security: []\n      x-errors: [not_found]\n"),
    "get_kettle: its code insufficient_scope cannot be answered": _below(
        "security: []", "x-errors: [insufficient_scope]"
    ),
    "list_kettles: its parameter Limit follows from the rest": (
        "parameters: [{name: colour",
        "parameters: [{$ref: '#/components/parameters/Limit'}, {name: colour",
    ),
    "list_kettles: only writes take an IdempotencyKey": (
        "parameters: [{name: colour",
        "parameters: [{$ref: '#/components/parameters/IdempotencyKey'}, {name: colour",
    ),
    "paths./kettles/{kettleId}.parameters: it follows from the rest": (
        "  /kettles/{kettleId}:\n",
        "  /kettles/{kettleId}:\n    parameters: [{$ref: '#/components/parameters/KettleId'}]\n",
    ),
    "get_kettle: its header X-Request-Id follows from the rest": (
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
    "Kettle: that an answer is open follows from the rest": _below("required: [id]", "additionalProperties: true"),
    "Kettle: the sentence with the values follows from the rest": (
        "description: How it looks.}",
        "description: How it looks. One of `red` or `blue`.}",
    ),
}
