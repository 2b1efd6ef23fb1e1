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

  /* Long tables show their first rows until asked: laying out ten thousand takes seconds. */
  var FIRST = 400;
  var whole = [];
  function show(table) {
    var left = whole.indexOf(table) < 0 ? FIRST : Infinity;
    var button = table.parentNode.nextElementSibling;
    var shut = 0;
    Array.prototype.forEach.call(table.tBodies[0].children, function (row) {
      var out = row.classList.contains("out");
      var hide = out || left <= 0;
      if (row.hidden !== hide) row.hidden = hide;
      if (!out && left-- <= 0) shut++;
    });
    if (!button || !button.classList.contains("more")) {
      if (shut === 0) return;
      button = document.createElement("button");
      button.type = "button";
      button.className = "more";
      table.parentNode.insertAdjacentElement("afterend", button);
      button.addEventListener("click", function () { whole.push(table); show(table); });
    }
    button.hidden = shut === 0;
    button.textContent = "show " + shut + " more rows";
  }

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
    var rows = Array.prototype.map.call(body.children, function (row, i) {
      return { row: row, k: key(row.children[col], text), i: i };
    });
    rows.sort(function (a, b) {
      if (a.k === null || b.k === null)
        return a.k === b.k ? a.i - b.i : a.k === null ? 1 : -1;
      if (a.k === b.k) return a.i - b.i;
      return (a.k < b.k ? -1 : 1) * (up ? 1 : -1);
    });
    table.removeChild(body); /* moved out of sight: no style is worked out meanwhile */
    rows.forEach(function (r) { body.appendChild(r.row); });
    table.appendChild(body);
    table.classList.add("sorted");
    all("th[aria-sort]", table.tHead).forEach(function (t) { t.setAttribute("aria-sort", "none"); });
    th.setAttribute("aria-sort", up ? "ascending" : "descending");
    show(table);
  }
  all("table.sortable").forEach(function (table) {
    all("thead th", table).forEach(function (th) {
      var b = th.querySelector("button");
      if (b) b.addEventListener("click", function () { sort(table, th); });
    });
    show(table);
  });

  /* filters */
  var box = document.getElementById("filter");
  var checks = all(".tools input[type=checkbox]");
  var count = document.getElementById("filter-count");
  function apply() {
    var word = box ? box.value.trim().toLowerCase() : "";
    var off = {};
    var out = 0;
    checks.forEach(function (c) { if (!c.checked) off[c.name + "\n" + c.value] = true; });
    function wants(section) {
      var suites = section.getAttribute("data-suite");
      return !off["model\n" + section.getAttribute("data-model")] && (suites === null ||
        suites.split("\n").some(function (s) { return !off["suite\n" + s]; }));
    }
    all("section[data-model]").forEach(function (s) { s.hidden = !wants(s); });
    all("table.by-method").forEach(function (table) {
      all("tbody tr:not(.ref)", table).forEach(function (row) {
        var no = Boolean(off["method\n" + row.children[0].textContent]) ||
          (word !== "" && row.textContent.toLowerCase().indexOf(word) < 0);
        row.classList.toggle("out", no);
        out += no ? 1 : 0;
      });
      show(table);
    });
    if (count) count.textContent = out ? out + " rows hidden" : "";
  }
  if (box) box.addEventListener("input", apply);
  checks.forEach(function (c) { c.addEventListener("change", apply); });
  all(".js").forEach(function (e) { e.hidden = false; });
}());
/*]]>*/
