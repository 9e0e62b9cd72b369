// A form above the tables of operators: words, a dtype and an opset choose which rows are shown.
"use strict";
(() => {
  const cellsOf = (row) => [...row.cells].map((cell) => cell.textContent.trim());
  const tables = [...document.querySelectorAll("article table")].filter((table) =>
    cellsOf(table.rows[0]).slice(0, 3).join() === "operator,dtypes,opset");
  if (!tables.length) return;

  const oldest = Number(document.querySelector("article").textContent.match(/support opset (\d+)/)[1]);
  const rows = tables.flatMap((table) => [...table.tBodies[0].rows].map((element) => {
    const [operator, dtypes, opset, limits] = cellsOf(element);
    const words = `${operator} ${limits}`.toLowerCase();
    return { element, words, dtypes: dtypes.split(" "), opset: parseInt(opset) || oldest };
  }));
  const sections = tables.map((table) => {
    const block = table.closest(".md-typeset__scrollwrap") || table;
    let heading = block.previousElementSibling;
    while (heading && heading.tagName !== "H2") heading = heading.previousElementSibling;
    return { heading, block, table, rows: rows.filter((row) => table.contains(row.element)) };
  });

  const options = (values, name) =>
    values.map((value) => `<option value="${value}">${name(value)}</option>`).join("");
  const dtypes = [...new Set(rows.flatMap((row) => row.dtypes))].filter(Boolean);
  const opsets = [...new Set(rows.map((row) => row.opset))].sort((a, b) => a - b);
  const form = document.createElement("form");
  form.className = "operators";
  form.innerHTML = `
    <input type="search" name="find" placeholder="aten::add" aria-label="words of an operator">
    <select name="dtype" aria-label="dtype"><option value="">any dtype</option>
      ${options(dtypes, (dtype) => `tested with ${dtype}`)}</select>
    <select name="opset" aria-label="opset"><option value="">any opset</option>
      ${options(opsets, (opset) => `at opset ${opset}`)}</select>
    <output></output>`;
  document.querySelector("article h1").after(form);
  const kept = new Set([document.querySelector("article h1"), form]);
  for (const { heading, block } of sections) kept.add(heading).add(block);
  const others = [...form.parentElement.children].filter((element) => !kept.has(element));

  const show = () => {
    const words = form.find.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const section of sections) {
      let some = false;
      for (const row of section.rows) {
        const shown = words.every((word) => row.words.includes(word)) &&
          (!form.dtype.value || row.dtypes.includes(form.dtype.value)) &&
          (!form.opset.value || row.opset <= Number(form.opset.value));
        row.element.hidden = !shown;
        some ||= shown;
        count += shown;
      }
      section.table.hidden = !some;
      if (section.heading) section.heading.hidden = !some;
    }
    for (const element of others) element.hidden = count < rows.length;
    form.querySelector("output").value = `${count} of ${rows.length}`;
  };
  // The choice is part of the address, so that it can be a link: #find=add&dtype=f16
  const read = () => {
    const chosen = new URLSearchParams(location.hash.slice(1));
    for (const name of ["find", "dtype", "opset"]) form[name].value = chosen.get(name) || "";
    show();
  };
  form.addEventListener("input", () => {
    const chosen = [...new FormData(form)].filter(([, value]) => value);
    history.replaceState(null, "", `#${new URLSearchParams(chosen)}`);
    show();
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  addEventListener("hashchange", read);
  read();
})();
