#!/usr/bin/env bash
# proof_page_browser.sh - the page of a stored run in a real browser (page_browser.py), once with ordinary names
# and once with names that are attacks.
. tests/cli/common.inc
. tests/cli/proof.inc
command -v python3 >/dev/null || { skip page_browser "no python3"; exit $bad; }
suite r "\"methods\":[\"keydiff\",\"random\",\"streaming\"],\"tasks\":[\"ruler/niah_single_1@400\",\"ruler/vt@400\",
  \"niah/needle@400\"],\"budgets\":[{\"keep\":0.5},{\"keep\":0.25}],\"defaults\":{\"n\":5,\"max_new_tokens\":8}"
run_suite r r 0 --jobs 2
check page 0 "$KVAUDIT" report -o "$T/page" --db "$T/r.db"
cp "$T/r.db" "$T/h.db"
sqlite3 "$T/h.db" "UPDATE method SET name = '\"><script>window.pwned=1</script>' WHERE name LIKE 'random%';
  UPDATE method SET name = '<img src=x onerror=window.pwned=1>' WHERE name LIKE 'streaming%';
  UPDATE method SET name = '=cmd|'' /C calc''!A0' WHERE name LIKE 'keydiff%'; UPDATE run SET label = '</style></script>';"
check hostile_page 0 "$KVAUDIT" report -o "$T/hostile" --db "$T/h.db"
python3 tests/cli/page_browser.py "$T/page/index.html" "$T/hostile/index.html" || bad=1
exit $bad
