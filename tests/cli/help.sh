#!/usr/bin/env bash
# help.sh - help, version, unknown words, exit codes.
. tests/cli/common.inc

check help_exits_0 0 "$KVAUDIT" --help
has help_names_run "$T/out" "run SUITE"
empty help_says_nothing_on_stderr "$T/err"
cp "$T/out" "$T/help"
check short_help 0 "$KVAUDIT" -h
same short_and_long_help_agree "$T/out" "$T/help"
check no_command_is_usage 2 "$KVAUDIT"
empty usage_is_no_data "$T/out"
for c in run report generate list doctor fetch score analyze audit compare merge; do
  check "help_$c" 0 "$KVAUDIT" $c --help
  cp "$T/out" "$T/help"
  check "help_word_$c" 0 "$KVAUDIT" help $c
  same "both_helps_of_${c}_agree" "$T/out" "$T/help"
  check "version_after_$c" 0 "$KVAUDIT" $c --version
  has "version_after_${c}_prints_it" "$T/out" "kvaudit "
  check "unknown_option_of_$c" 2 "$KVAUDIT" $c --jsno
  has "nearest_option_of_$c" "$T/err" "did you mean --json?"
done
check version 0 "$KVAUDIT" --version
for word in commit semantics sqlite jansson libcurl gsl pcre2 libarchive scalar; do
  has "version_has_$word" "$T/out" "$word"
done
check unknown_command 2 "$KVAUDIT" reprot
has nearest_command "$T/err" "did you mean 'report'?"
check far_command 2 "$KVAUDIT" zzzzzzzz
has far_command_points_to_help "$T/err" "kvaudit --help"
for words in "list nothing" "report nothing" "report -f nothing"; do
  check "wrong word in: $words" 2 "$KVAUDIT" $words --db /dev/null
  if grep -qE "'kvaudit list( views)?' names|text, json" "$T/err"; then ok "what is right for: $words"; else no "what is right for: $words" "$(cat "$T/err")"; fi
done
check option_before_command 2 "$KVAUDIT" -v list
check man 0 "$KVAUDIT" --help-man
has man_title "$T/out" ".TH KVAUDIT 1"
if command -v man >/dev/null; then
  man --warnings -l "$T/out" >/dev/null 2>"$T/warn"
  empty man_page_has_no_warnings "$T/warn"
else
  skip man_page_has_no_warnings "no man"
fi
# what the program reads of its environment is in the manual
sed 's/\\//g' "$T/out" >"$T/page"
for v in $(grep -rhoE '(getenv|kva_env_flag|kva_env_int|given_or)\([^"()]*"[A-Z_]+"' kva*.c kernels models methods tasks metrics db reports runner |
  grep -o '[A-Z_]*"$' | tr -d '"' | sort -u); do
  case $v in HOME | PATH | FONTCONFIG_FILE) continue ;; esac
  if grep -qw -- "$v" "$T/page"; then ok "manual_has_$v"; else no "manual_has_$v"; fi
done
check completion 0 "$KVAUDIT" --help-completion
if bash -n "$T/out"; then ok completion_is_bash; else no completion_is_bash; fi
is completion_completes "$(bash -c '. "$1"; COMP_WORDS=(kvaudit run --dr); COMP_CWORD=2; _kvaudit; echo "${COMPREPLY[*]}"' x "$T/out")" --dry-run
is completion_of_commands "$(bash -c '. "$1"; COMP_WORDS=(kvaudit ge); COMP_CWORD=1; _kvaudit; echo "${COMPREPLY[*]}"' x "$T/out")" generate
if [ -e /dev/full ]; then
  "$KVAUDIT" --help >/dev/full 2>"$T/err"
  is full_disk_is_exit_3 $? 3
  "$KVAUDIT" generate ruler/vt --ctx 512 -n 9 >/dev/full 2>"$T/err"
  is full_output_is_exit_3 $? 3
  is full_output_is_said_once "$(grep -c . "$T/err")" 1
fi
exit $bad
