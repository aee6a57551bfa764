#!/usr/bin/env bash
# Ends with 0 if nothing is frozen (or it only reports), 1 if something is, 2 if that cannot be found out.
#
# Needs bash, curl and jq. In the environment: FREEZE_URL, FREEZE_KEY, REPOSITORY, and perhaps BRANCH,
# ON_FROZEN (fail, wait, report), ON_ERROR (fail, pass), WAIT_MINUTES, POLL_SECONDS and RETRY_SECONDS.
set -uo pipefail

MAX_TRIES=4
MAX_PAUSE_SECONDS=60
on_frozen=${ON_FROZEN:-fail} on_error=${ON_ERROR:-fail} wait_minutes=${WAIT_MINUTES:-30}
poll_seconds=${POLL_SECONDS:-15} retry_seconds=${RETRY_SECONDS:-5}

# Texts of people are written as one line that is no command of the runner: these begin with :: or contain ##[.
# Colons are parted twice, because a replacement in ::: leaves another :: behind.
plain() { printf '%s' "$1" | LC_ALL=C tr -d '\000-\037\177' | sed -e 's/::/: :/g' -e 's/::/: :/g' -e 's/##\[/# #[/g'; }
data_of_command() { plain "$1" | sed 's/%/%25/g'; }
fail() { printf '::error title=Freeze gate::%s\n' "$(data_of_command "$2")"; exit "$1"; }
output() { if [ -n "${GITHUB_OUTPUT:-}" ]; then printf '%s=%s\n' "$1" "$2" >> "$GITHUB_OUTPUT"; fi; }

[[ $on_frozen =~ ^(fail|wait|report)$ ]] || fail 2 "on-frozen must be fail, wait or report."
[[ $on_error =~ ^(fail|pass)$ ]] || fail 2 "on-error must be fail or pass."
[[ $wait_minutes =~ ^[0-9]{1,4}$ ]] || fail 2 "wait-minutes must be a number."
for name in FREEZE_URL FREEZE_KEY REPOSITORY; do [ -n "${!name:-}" ] || fail 2 "$name is missing."; done
for command in curl jq; do command -v "$command" > /dev/null || fail 2 "$command is not installed."; done

directory=$(mktemp -d) || fail 2 "There is no space for temporary files."
trap 'rm -rf "$directory"' EXIT
body=$directory/body headers=$directory/headers
deadline=$((SECONDS + 10#$wait_minutes * 60)) tries=0 etag="" frozen="" enforced="" until="" next="" reason=""

ask() {  # the key goes through a pipe, since arguments can be seen by other processes
  local question=(--data-urlencode "repo=$REPOSITORY")
  [ -z "${BRANCH:-}" ] || question+=(--data-urlencode "branch=$BRANCH")
  : > "$body"; : > "$headers"
  { printf 'Authorization: Bearer %s\n' "$FREEZE_KEY"; [ -z "$etag" ] || printf 'If-None-Match: %s\n' "$etag"; } |
    curl -sS --max-time 10 --max-filesize 10000000 -G "${FREEZE_URL%/}/v1/freeze-state" "${question[@]}" -H @- \
      -o "$body" -D "$headers" -w '%{http_code}' 2> /dev/null || printf '000'
}

# Prints true or false if the answer is one whole object that says so once, and nothing otherwise.
said_frozen() {
  jq -se 'length == 1 and (.[0] | type == "object")' "$body" > /dev/null 2>&1 || return 0
  jq -rn --stream '[inputs | select(length == 2 and .[0] == ["frozen"]) | .[1]] | select(length == 1) | .[0] | booleans' \
    "$body" 2> /dev/null || return 0
}

header() { LC_ALL=C sed -n "s/^$1: *\([^[:cntrl:]]*\).*/\1/Ip" "$headers" | head -n 1; }

while :; do
  status=$(ask); status=${status: -3}
  if [ "$status" = 200 ]; then
    frozen=$(said_frozen)
    enforced=$(jq -r '.enforced | booleans' "$body" 2> /dev/null) || enforced=""
    until=$(jq -r '.frozenUntil | strings | select(test("^[0-9TZ:.+-]+$"))' "$body" 2> /dev/null) || until=""
    next=$(jq -r '.nextChangeAt | strings | select(test("^[0-9TZ:.+-]+$"))' "$body" 2> /dev/null) || next=""
    reason=$(jq -r '[.freezes[]?.reason | strings] | join("; ")' "$body" 2> /dev/null) || reason=""
    etag=$(header etag)
  fi
  case $status in
    200 | 304) [ -z "$frozen" ] || tries=0 ;;
    400 | 401 | 403 | 404 | 410 | 422)  # waiting mends none of these
      said=$(jq -r '.error | "\(.code): \(.message)"' "$body" 2> /dev/null) || said=""
      fail 2 "The freeze service refuses to answer ($status). $said" ;;
    *) frozen="" etag="" ;;
  esac
  if [ -z "$frozen" ]; then
    tries=$((tries + 1))
    if [ "$tries" -ge "$MAX_TRIES" ]; then
      [ "$on_error" = fail ] || { printf '::warning title=Freeze gate::The freeze service cannot be asked (%s); going on.\n' "$status"; exit 0; }
      fail 2 "The freeze service cannot be asked ($status)."
    fi
    pause=$(header retry-after); [[ $pause =~ ^[0-9]{1,4}$ ]] || pause=$((tries * retry_seconds))
    sleep "$((10#$pause < MAX_PAUSE_SECONDS ? 10#$pause : MAX_PAUSE_SECONDS))"
    continue
  fi
  subject="$REPOSITORY${BRANCH:+:$BRANCH}"
  text="$subject is frozen${until:+ until $until}: $reason"
  case $enforced in  # whether GitHub refuses merges meanwhile; it changes nothing about the end of this script
    true) text+="; GitHub refuses merges into all that is frozen" ;;
    false) text+="; GitHub is not known to refuse merges into all that is frozen" ;;
  esac
  if [ "$frozen" != false ] && [ "$on_frozen" = wait ] && [ "$SECONDS" -lt "$deadline" ]; then
    printf '%s\n' "$(plain "$text")"; sleep "$poll_seconds"; continue
  fi
  output frozen "$frozen"; output enforced "$enforced"; output frozen-until "$until"
  output next-change-at "$next"
  if [ "$frozen" = false ]; then printf '%s\n' "$(plain "$subject is open.")"; exit 0; fi
  if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then printf '### Frozen\n\n    %s\n' "$(plain "$text")" >> "$GITHUB_STEP_SUMMARY"; fi
  [ "$on_frozen" = fail ] || [ "$on_frozen" = wait ] || { printf '%s\n' "$(plain "$text")"; exit 0; }
  fail 1 "$text"
done
