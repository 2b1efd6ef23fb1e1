#!/usr/bin/env bash
# lint.sh - include direction, symbol prefix, banned calls, formatting. Prints what is wrong.
set -u
bad=0
say() { echo "$*"; bad=1; }

# 1. include direction (DESIGN.md, "The tree and its direction"): a module includes what its row
#    names, and itself
allowed() {
  case $1 in
    kva) echo kva ;;
    kernels) echo kva kernels ;;
    methods) echo kva kernels methods ;;
    metrics) echo kva metrics ;;
    models) echo kva kernels methods models ;;
    tasks) echo kva metrics tasks ;;
    db) echo kva db ;;
    reports) echo kva db metrics reports ;;
    runner) echo kva kernels methods metrics models tasks db reports runner ;;
  esac
}
for f in $(git ls-files '*.c' '*.h' '*.cu' '*.def' | grep -v '^tests/'); do
  module=${f%%/*}
  [ "$module" = "$f" ] && module=kva
  for inc in $(sed -n 's/^#include "\([^"]*\)".*/\1/p' "$f"); do
    target=${inc%%/*}
    [ "$target" = "$inc" ] && target=kva
    case " $(allowed "$module") " in
      *" $target "*) ;;
      *) say "$f: includes $inc; $module may include only: $(allowed "$module")" ;;
    esac
  done
done

# FILE:LINE:code of the files on stdin that hold the pattern, without comments and texts
code() {
  xargs grep -lE "$1" /dev/null | xargs -r awk -v want="$1" '
    FNR == 1 { comment = 0 }
    {
      out = ""
      for (i = 1; i <= length($0); i++) {
        c = substr($0, i, 1); two = substr($0, i, 2)
        if (comment) {
          if (two == "*/") { comment = 0; i++ }
        } else if (two == "/*") {
          comment = 1; i++
        } else if (two == "//") {
          break
        } else if (c == "\"" || c == "\047") {
          for (i++; i <= length($0) && substr($0, i, 1) != c; i++)
            if (substr($0, i, 1) == "\\") i++
        } else {
          out = out c
        }
      }
      if (out ~ want) print FILENAME ":" FNR ":" out
    }' | grep .
}

# 2. banned calls
git ls-files '*.c' '*.h' |
  code '(^|[^_[:alnum:]])(sprintf|strcpy|strcat|strtok|atoi|atof|gets|rand|system) *[(]' &&
  say "banned calls above"

# 3. only runner/ and reports/ print; the default log sink of kva.c does
git ls-files 'kernels/*.c' 'methods/*.c' 'metrics/*.c' 'models/*.c' 'tasks/*.c' 'db/*.c' 'kva_*.c' |
  code '(^|[^_[:alnum:]])(printf|puts|putchar) *[(]|fprintf *[(] *(stdout|stderr)' &&
  say "code below runner/ and reports/ prints (above)"

# 4. global symbols carry the prefix
B=${B:-build/plain}
if ls "$B"/lib*.a >/dev/null 2>&1; then
  nm -g --defined-only "$B"/lib*.a 2>/dev/null | awk 'NF == 3 && $3 !~ /^kva_/ {print $3}' | sort -u |
    grep -vE '^(__|_GLOBAL|\.)' && say "global symbols without the prefix kva_ (above)"
else
  echo "lint: no libraries in $B, symbols not checked"
fi

# 5. formatting
if command -v clang-format >/dev/null 2>&1 && clang-format --version | grep -q 'version 14'; then
  for f in $(git ls-files '*.c' '*.h' | grep -v '^tests/bench/peers'); do
    clang-format "$f" | cmp -s - "$f" || say "$f: not formatted (make format)"
  done
else
  echo "lint: clang-format 14 not found, formatting not checked"
fi

# 6. every source opens with its licence line
for f in $(git ls-files '*.c' '*.h' '*.cu'); do
  head -1 "$f" | grep -q 'SPDX-License-Identifier: GPL-3.0-or-later' || say "$f: no SPDX line"
done
[ $bad -eq 0 ] && echo "lint: clean"
exit $bad
