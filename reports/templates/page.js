/*<![CDATA[*/
(function () {
  "use strict";
  var root = document.documentElement;
  var all = function (q, at) { return Array.prototype.slice.call((at || document).querySelectorAll(q)); };

  /* theme: auto, light, dark; storage may be refused on file:// */
  var buttons = all(".theme button");
  function theme(name, keep) {
    if (name === "auto") root.removeAttribute("data-theme");
    else root.setAttribute("data-theme", name);
    buttons.forEach(function (b) { b.setAttribute("aria-pressed", String(b.value === name)); });
    if (keep) try { localStorage.setItem("kvaudit-theme", name); } catch (e) { /* not kept */ }
  }
  var kept = null;
  try { kept = localStorage.getItem("kvaudit-theme"); } catch (e) { kept = null; }
  theme(kept === "light" || kept === "dark" ? kept : "auto", false);
  buttons.forEach(function (b) { b.addEventListener("click", function () { theme(b.value, true); }); });

  /* sorting: stable, missing values last both ways */
  function key(cell, text) {
    var v = cell.getAttribute("data-v");
    if (v === null) v = cell.textContent;
    if (v === "") return null;
    return text ? v.toLowerCase() : Number(v);
  }
  function sort(table, th) {
    var up = th.getAttribute("aria-sort") !== "ascending";
    var col = Array.prototype.indexOf.call(th.parentNode.children, th);
    var text = th.classList.contains("t");
    var body = table.tBodies[0];
    var rows = Array.prototype.map.call(body.rows, function (row, i) {
      return { row: row, k: key(row.cells[col], text), i: i };
    });
    rows.sort(function (a, b) {
      if (a.k === null || b.k === null)
        return a.k === b.k ? a.i - b.i : a.k === null ? 1 : -1;
      if (a.k === b.k) return a.i - b.i;
      return (a.k < b.k ? -1 : 1) * (up ? 1 : -1);
    });
    var all_rows = document.createDocumentFragment();
    rows.forEach(function (r) { all_rows.appendChild(r.row); });
    body.appendChild(all_rows);
    table.classList.add("sorted");
    all("th[aria-sort]", table.tHead).forEach(function (t) { t.setAttribute("aria-sort", "none"); });
    th.setAttribute("aria-sort", up ? "ascending" : "descending");
  }
  all("table.sortable").forEach(function (table) {
    all("thead th", table).forEach(function (th) {
      var b = th.querySelector("button");
      if (b) b.addEventListener("click", function () { sort(table, th); });
    });
  });

  /* filters */
  var box = document.getElementById("filter");
  var checks = all(".tools input[type=checkbox]");
  var count = document.getElementById("filter-count");
  function apply() {
    var word = box ? box.value.trim().toLowerCase() : "";
    var off = {};
    var hidden = 0;
    checks.forEach(function (c) { if (!c.checked) off[c.name + "\n" + c.value] = true; });
    function wants(section) {
      var suites = section.getAttribute("data-suite");
      return !off["model\n" + section.getAttribute("data-model")] && (suites === null ||
        suites.split("\n").some(function (s) { return !off["suite\n" + s]; }));
    }
    all("section[data-model]").forEach(function (s) { s.hidden = !wants(s); });
    all("table.by-method tbody tr:not(.ref)").forEach(function (row) {
      row.hidden = Boolean(off["method\n" + row.cells[0].textContent]) ||
        (word !== "" && row.textContent.toLowerCase().indexOf(word) < 0);
      hidden += row.hidden ? 1 : 0;
    });
    if (count) count.textContent = hidden ? hidden + " rows hidden" : "";
  }
  if (box) box.addEventListener("input", apply);
  checks.forEach(function (c) { c.addEventListener("change", apply); });
  all(".js").forEach(function (e) { e.hidden = false; });
}());
/*]]>*/
