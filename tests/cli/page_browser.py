# SPDX-License-Identifier: GPL-3.0-or-later
"""page_browser.py PAGE HOSTILE [SHOTS] - opens a report from file:// in headless Chromium and checks
what a reader meets (reports.md 6.3, 12.9): with and without script, light and dark, narrow and wide.

PAGE is an ordinary index.html, HOSTILE one whose names are attacks. SHOTS: a directory for
screenshots. Prints `ok NAME`, `not ok NAME reason` or `skip NAME reason`; exit 1 when a check failed."""
import os
import pathlib
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from browser import Browser, BrowserError, program  # noqa: E402

WIDTHS = (390, 1440)
ROWS = 10000
bad = []


def check(name, good, why=""):
    print(f"ok {name}" if good else f"not ok {name} {why}")
    if not good:
        bad.append(name)


# Contrast of every pair of text and its background that the page shows, from computed styles.
CONTRAST = """(() => {
  const parse = c => { const m = c.match(/[0-9.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m; };
  const lum = c => { const f = c.slice(0, 3).map(v => { v /= 255;
    return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * f[0] + 0.7152 * f[1] + 0.0722 * f[2]; };
  const ratio = (a, b) => { const x = lum(a), y = lum(b); return (Math.max(x, y) + .05) / (Math.min(x, y) + .05); };
  const back = e => { for (; e; e = e.parentElement) {
    const c = parse(getComputedStyle(e).backgroundColor); if (c[3] > 0.99) return c; } return [255, 255, 255, 1]; };
  let worst = [99, ""];
  for (const e of document.querySelectorAll("body *")) {
    if (e.closest("svg, script, style") || !e.checkVisibility()) continue;
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())) continue;
    const r = ratio(parse(getComputedStyle(e).color), back(e));
    if (r < worst[0]) worst = [r, e.tagName + "." + e.className + " " + e.textContent.slice(0, 20)];
  }
  const v = n => { const d = document.createElement("i"); d.style.color = `var(--${n})`; document.body.append(d);
    const c = parse(getComputedStyle(d).color); d.remove(); return c; };
  const marks = ["dot", "bar", "accent"].map(n => ratio(v(n), v("surface")));
  return {text: worst, marks: Math.min(...marks)};
})()"""

STRUCTURE = """(() => {
  const ids = [...document.querySelectorAll("[id]")].map(e => e.id);
  const links = [...document.querySelectorAll("[src],[href]")].map(e => e.getAttribute("src") || e.getAttribute("href"));
  return {twice: ids.filter((x, i) => ids.indexOf(x) !== i),
    outside: links.filter(x => /^([a-z]+:)?\\/\\//i.test(x)),
    dead: links.filter(x => x.startsWith("#") && !ids.includes(x.slice(1))),
    lang: document.documentElement.lang, h1: document.querySelectorAll("h1").length,
    marks: ["header", "nav", "main", "footer"].filter(x => !document.querySelector(x)),
    uncaptioned: [...document.querySelectorAll("table")].filter(t => !t.caption || !t.caption.textContent).length,
    unscoped: document.querySelectorAll("th:not([scope])").length,
    resources: performance.getEntriesByType("resource").length};
})()"""

# The values that a column sorts by, in the order shown; null: missing.
COLUMN = """(t, i) => [...t.tBodies[0].rows].map(r => { const c = r.cells[i];
  let v = c.getAttribute("data-v"); if (v === null) v = c.textContent;
  return v === "" ? null : t.tHead.rows[0].cells[i].classList.contains("t") ? v.toLowerCase() : Number(v); })"""

SORTED = """(() => { const column = %s, wrong = []; let states = 0, missing = 0;
  for (const t of document.querySelectorAll("table.sortable"))
    [...t.tHead.rows[0].cells].forEach((th, i) => {
      for (const want of ["ascending", "descending"]) {
        th.querySelector("button").click(); states++;
        if (th.getAttribute("aria-sort") !== want) wrong.push(th.textContent + ": " + th.getAttribute("aria-sort"));
        if (t.querySelectorAll("th[aria-sort]:not([aria-sort=none])").length !== 1) wrong.push("two sorted columns");
        const v = column(t, i), known = v.filter(x => x !== null);
        missing += v.length - known.length;
        if (v.slice(0, known.length).includes(null)) wrong.push(th.textContent + ": missing not last, " + want);
        for (let k = 1; k < known.length; k++)
          if (want === "ascending" ? known[k] < known[k - 1] : known[k] > known[k - 1]) {
            wrong.push(th.textContent + ": " + want + " out of order"); break; }
      }
    });
  return {wrong, states, missing}; })()""" % COLUMN

LARGE = """(() => { const t = document.querySelector("table.sortable"), body = t.tBodies[0], row = body.rows[1];
  let seed = 7; const next = () => (seed = (seed * 48271) %% 2147483647) / 2147483647;
  while (body.rows.length < %d) { const r = row.cloneNode(true);
    for (const c of r.cells) if (c.hasAttribute("data-v")) c.setAttribute("data-v", next() < 0.01 ? "" : String(next()));
    body.append(r); }
  const th = [...t.tHead.rows[0].cells].findIndex((h, i) => !h.classList.contains("t") && row.cells[i].hasAttribute("data-v"));
  let ms = Infinity, v, known;
  /* up, down, up: the best of three, and of more while the machine is busy; the last is up */
  for (let k = 0; k < 3 || k %% 2 === 0 || (ms >= 1000 && k < 31); k++) {
    t.getBoundingClientRect();
    const at = performance.now();
    t.tHead.rows[0].cells[th].querySelector("button").click();
    t.getBoundingClientRect();
    ms = Math.min(ms, performance.now() - at);
  }
  v = (%s)(t, th); known = v.filter(x => x !== null);
  return {ms, rows: body.rows.length, good: known.every((x, k) => k === 0 || x >= known[k - 1]) &&
    !v.slice(0, known.length).includes(null)}; })()""" % (ROWS, COLUMN)

VISIBLE = "[...document.querySelectorAll('section[data-suite] tr')].filter(r => r.checkVisibility()).length"


def layout(b, url, shots):
    for width in WIDTHS:
        for dark in (False, True):
            for script in (True, False):
                name = f"{width}_{'dark' if dark else 'light'}_{'script' if script else 'plain'}"
                p = b.open(url, width=width, dark=dark, script=script)
                check(f"{name}_without_errors", not p.errors, p.errors[:3])
                wide = p.eval("document.documentElement.scrollWidth")
                check(f"{name}_does_not_overflow", wide <= width, f"{wide} px")
                c = p.eval(CONTRAST)
                check(f"{name}_text_contrast", c["text"][0] >= 4.5, c["text"])
                check(f"{name}_mark_contrast", c["marks"] >= 3, c["marks"])
                hidden = p.eval("[...document.querySelectorAll('.js')].map(e => e.hidden)")
                check(f"{name}_controls", hidden and all(h != script for h in hidden), hidden)
                if shots:
                    p.screenshot(os.path.join(shots, name + ".png"), 2400)
                p.close()


def structure(p, name):
    s = p.eval(STRUCTURE)
    check(f"{name}_ids_are_unique", not s["twice"], s["twice"][:3])
    check(f"{name}_nothing_from_outside", not s["outside"] and s["resources"] == 0, s["outside"][:3])
    check(f"{name}_links_lead_somewhere", not s["dead"], s["dead"][:3])
    check(f"{name}_landmarks", s["lang"] == "en" and s["h1"] == 1 and not s["marks"], s)
    check(f"{name}_tables_are_labelled", s["uncaptioned"] == 0 and s["unscoped"] == 0, s)


def policy(b, url):
    p = b.open(url)
    ran = p.eval("(() => { const s = document.createElement('script'); s.textContent = 'window.ran = 1';"
                 "document.head.append(s); return window.ran === 1; })()")
    check("policy_stops_other_scripts", not ran)
    p.eval("new Promise(r => { const i = new Image(); i.onload = i.onerror = () => r(1);"
           "i.src = 'http://127.0.0.1:9/x.png'; })")
    check("policy_names_the_violations", sum("Content Security Policy" in e for e in p.errors) >= 2, p.errors)
    p.close()


def controls(b, url):
    p = b.open(url)
    structure(p, "page")
    before = p.eval(VISIBLE)
    p.eval("(() => { const f = document.getElementById('filter'); f.value = 'no such row';"
           "f.dispatchEvent(new Event('input')); })()")
    check("text_filter_hides", p.eval(VISIBLE) < before)
    check("and_says_so", "hidden" in p.eval("document.getElementById('filter-count').textContent"))
    p.eval("(() => { const f = document.getElementById('filter'); f.value = '';"
           "f.dispatchEvent(new Event('input')); })()")
    check("and_shows_again", p.eval(VISIBLE) == before)
    for key in ("method", "suite"):
        boxes = p.eval(f"document.querySelectorAll('.tools input[name={key}]').length")
        check(f"{key}_boxes_exist", boxes >= 2, boxes)
        hide = p.eval(f"(() => {{ const c = document.querySelector('.tools input[name={key}]'); c.click();"
                      f"const n = {VISIBLE}; c.click(); return n; }})()")
        check(f"{key}_box_hides", hide < before or key == "suite", f"{hide} of {before}")
    gone = p.eval("(() => { const all = [...document.querySelectorAll('.tools input[name=suite]')];"
                  f"all.forEach(c => c.click()); const n = {VISIBLE}; all.forEach(c => c.click()); return n; }})()")
    check("no_suite_no_row", gone == 0, gone)
    check("all_suites_all_rows", p.eval(VISIBLE) == before)
    dark = p.eval("(() => { document.querySelector('.theme button[value=dark]').click();"
                  "return getComputedStyle(document.body).backgroundColor; })()")
    light = p.eval("(() => { document.querySelector('.theme button[value=light]').click();"
                   "return getComputedStyle(document.body).backgroundColor; })()")
    check("theme_switch", dark != light and p.eval(
        "document.querySelector('.theme button[value=light]').getAttribute('aria-pressed')") == "true", dark)
    s = p.eval(SORTED)
    check("every_column_sorts_both_ways", not s["wrong"] and s["states"] > 20, s["wrong"][:4])
    check("missing_values_were_among_them", s["missing"] > 0)
    check("no_error_on_the_way", not p.errors, p.errors[:3])
    s = p.eval(LARGE)
    check(f"{s['rows']}_rows_sort", s["good"], s)
    check("within_a_second", s["ms"] < 1000, s)
    print(f"# {s['rows']} rows sorted in {s['ms']:.0f} ms")
    p.close()
    p = b.open(url, media="print")
    check("print_has_no_controls", p.eval("[...document.querySelectorAll('.tools,.theme,nav.toc')]"
                                          ".every(e => !e.checkVisibility())"))
    check("print_repeats_table_heads", p.eval(
        "getComputedStyle(document.querySelector('thead')).display") == "table-header-group")
    p.close()


def hostile(b, url):
    p = b.open(url)
    structure(p, "hostile")
    check("hostile_names_run_nothing", p.eval("window.pwned === undefined") and not p.errors, p.errors[:3])
    check("hostile_names_are_shown", p.eval(
        "[...document.querySelectorAll('tbody th')].some(e => e.textContent.includes('<script>'))"))
    check("hostile_names_make_no_elements", p.eval("document.querySelectorAll('script, img').length") == 1)
    s = p.eval(SORTED)
    check("hostile_page_sorts", not s["wrong"], s["wrong"][:4])
    p.close()


def main():
    if not program():
        print("skip page_browser no Chromium here (Debian: chromium)")
        return 0
    urls = [pathlib.Path(a).resolve().as_uri() for a in sys.argv[1:3]]
    shots = sys.argv[3] if len(sys.argv) > 3 else None
    try:
        b = Browser().__enter__()
    except (BrowserError, OSError) as e:
        print(f"skip page_browser Chromium cannot start on this machine: {e}")
        return 0
    try:
        print("#", b.version)
        layout(b, urls[0], shots)
        policy(b, urls[0])
        controls(b, urls[0])
        if len(urls) > 1:
            hostile(b, urls[1])
    except BrowserError as e:
        check("the_browser_answers", False, str(e))
    finally:
        b.close()
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
