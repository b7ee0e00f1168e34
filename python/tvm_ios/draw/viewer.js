// SPDX-License-Identifier: Apache-2.0
// Zoom, pan, hover and search in the picture of a schedule. What operators are called is only ever
// read from attributes and written as text: names are whatever a model's author made them.
"use strict";
(() => {
  const SMALLEST = 0.02, LARGEST = 8, STEP = 1.25, READABLE = 1;
  const byId = (id) => document.getElementById(id);
  const pane = byId("view"), tip = byId("tip"), search = byId("search");
  const svg = pane.querySelector("svg");
  const whole = { width: svg.viewBox.baseVal.width, height: svg.viewBox.baseVal.height };
  const view = { x: 0, y: 0, scale: 1 }; // the picture's point at the pane's corner; pixels per unit

  // The details of an operator are its <title>; a browser would show them a second time.
  const operators = [...svg.querySelectorAll(".op")].map((element) => {
    const title = element.querySelector("title");
    const details = title.textContent;
    title.remove();
    return { element, details, name: element.dataset.name, picture: element.closest(".picture") };
  });
  const ofElement = new Map(operators.map((operator) => [operator.element, operator]));

  function apply() {
    const { width, height } = pane.getBoundingClientRect();
    const size = `${width / view.scale} ${height / view.scale}`;
    svg.setAttribute("viewBox", `${view.x} ${view.y} ${size}`);
  }

  function zoom(factor, x, y) {
    const scale = Math.min(LARGEST, Math.max(SMALLEST, view.scale * factor));
    view.x += x / view.scale - x / scale;
    view.y += y / view.scale - y / scale;
    view.scale = scale;
    apply();
  }

  function zoomMiddle(factor) {
    const { width, height } = pane.getBoundingClientRect();
    zoom(factor, width / 2, height / 2);
  }

  function show(x, y, width, height, scale) {
    const { width: paneWidth, height: paneHeight } = pane.getBoundingClientRect();
    view.scale = scale;
    view.x = x + width / 2 - paneWidth / scale / 2;
    view.y = y + height / 2 - paneHeight / scale / 2;
    apply();
  }

  function showAll() {
    const { width, height } = pane.getBoundingClientRect();
    const scale = Math.min(width / whole.width, height / whole.height, LARGEST);
    show(0, 0, whole.width, whole.height, Math.max(scale, SMALLEST));
  }

  function showTop() {
    const { width, height } = pane.getBoundingClientRect();
    const scale = Math.max(SMALLEST, Math.min(width / whole.width, 1.25));
    show(0, 0, whole.width, Math.min(whole.height, height / scale), scale);
  }

  // Pointing at an operator shows its details, its edges, and its likes in the other pictures.

  let pointed = null;

  function point(operator, x, y) {
    if (pointed !== operator) {
      leave();
      mark(operator);
    }
    const { width, height } = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - width - 4))}px`;
    tip.style.top = `${y + 16 + height > innerHeight ? Math.max(4, y - height - 12) : y + 16}px`;
  }

  function mark(operator) {
    pointed = operator;
    tip.textContent = operator.details;
    tip.hidden = false;
    for (const edge of operator.picture.querySelectorAll(".edge")) {
      const { from, to } = edge.dataset;
      if (from === operator.name || to === operator.name) edge.classList.add("near");
    }
    for (const other of operators) {
      if (other.name === operator.name) other.element.classList.add("near");
    }
  }

  function leave() {
    if (!pointed) return;
    pointed = null;
    tip.hidden = true;
    for (const element of svg.querySelectorAll(".near")) element.classList.remove("near");
  }

  // Search.

  let hits = [], current = -1;

  function find() {
    const wanted = search.value.trim().toLowerCase();
    hits = wanted ? operators.filter(({ name }) => name.toLowerCase().includes(wanted)) : [];
    current = -1;
    svg.classList.toggle("searching", hits.length > 0);
    for (const operator of operators) {
      operator.element.classList.toggle("hit", hits.includes(operator));
    }
    byId("found").value = wanted ? `${hits.length} found` : "";
    leave();
  }

  function goToNext(step) {
    if (!hits.length) return;
    current = current < 0 && step < 0 ? hits.length - 1 : (current + step + hits.length) % hits.length;
    const operator = hits[current];
    const box = operator.element.getBBox();
    const shift = operator.picture.transform.baseVal.consolidate().matrix.e;
    show(box.x + shift, box.y, box.width, box.height, Math.max(view.scale, READABLE));
    const place = operator.element.getBoundingClientRect();
    point(operator, place.right, place.bottom);
    byId("found").value = `${current + 1} of ${hits.length}`;
  }

  // Events.

  let dragged = null;

  pane.addEventListener("pointerdown", (event) => {
    dragged = { x: event.clientX, y: event.clientY };
    pane.setPointerCapture(event.pointerId);
  });
  pane.addEventListener("pointermove", (event) => {
    if (dragged) {
      view.x -= (event.clientX - dragged.x) / view.scale;
      view.y -= (event.clientY - dragged.y) / view.scale;
      dragged = { x: event.clientX, y: event.clientY };
      leave();
      apply();
      return;
    }
    const element = event.target.closest(".op");
    if (element) point(ofElement.get(element), event.clientX, event.clientY);
    else leave();
  });
  for (const end of ["pointerup", "pointercancel"]) {
    pane.addEventListener(end, () => { dragged = null; });
  }
  pane.addEventListener("pointerleave", leave);
  pane.addEventListener("wheel", (event) => {
    event.preventDefault();
    const { left, top } = pane.getBoundingClientRect();
    leave();
    zoom(Math.exp(-event.deltaY * 0.0015), event.clientX - left, event.clientY - top);
  }, { passive: false });

  const MOVES = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  const KEYS = {
    "+": () => zoomMiddle(STEP), "=": () => zoomMiddle(STEP), "-": () => zoomMiddle(1 / STEP),
    "0": showAll, "/": () => search.focus(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.target === search || event.ctrlKey || event.metaKey || event.altKey) return;
    const move = MOVES[event.key];
    if (move) {
      view.x += 60 * move[0] / view.scale;
      view.y += 60 * move[1] / view.scale;
      apply();
    } else if (KEYS[event.key]) KEYS[event.key]();
    else return;
    event.preventDefault();
  });
  search.addEventListener("input", find);
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") goToNext(event.shiftKey ? -1 : 1);
    if (event.key === "Escape") { search.value = ""; find(); }
  });
  byId("in").addEventListener("click", () => zoomMiddle(STEP));
  byId("out").addEventListener("click", () => zoomMiddle(1 / STEP));
  byId("all").addEventListener("click", showAll);
  addEventListener("resize", apply);
  showTop();
})();
