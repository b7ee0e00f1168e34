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
  // The picture's point in the pane's middle, and pixels per unit.
  const view = { x: whole.width / 2, y: whole.height / 2, scale: 1 };
  let fit = top; // the view that follows from the pane's size; null once the reader has chosen one

  // The details of an operator are its <title>; a browser would show them a second time.
  const operators = [...svg.querySelectorAll(".op")].map((element) => {
    const title = element.querySelector("title");
    const details = title.textContent;
    title.remove();
    const name = element.dataset.name;
    const searched = `${name} ${details.split("\n")[0]}`.toLowerCase(); // also by its module
    return { element, details, name, searched, picture: element.closest(".picture") };
  });
  const ofElement = new Map(operators.map((operator) => [operator.element, operator]));

  // A pane that is not shown has no size, and gets one without a reload: a hidden tab, a cell of a
  // notebook that is out of sight. Until then the picture is as the file has it.
  function draw() {
    const { width, height } = pane.getBoundingClientRect();
    if (!width || !height) return;
    if (fit) Object.assign(view, fit(width, height));
    const [across, down] = [width / view.scale, height / view.scale];
    const corner = `${view.x - across / 2} ${view.y - down / 2}`;
    svg.setAttribute("viewBox", `${corner} ${across} ${down}`);
  }

  function top(width, height) {
    const scale = clamped(Math.min(width / whole.width, 1.25));
    return { x: whole.width / 2, y: Math.min(whole.height, height / scale) / 2, scale };
  }

  function all(width, height) {
    const scale = clamped(Math.min(width / whole.width, height / whole.height));
    return { x: whole.width / 2, y: whole.height / 2, scale };
  }

  function clamped(scale) {
    return Math.min(LARGEST, Math.max(SMALLEST, scale));
  }

  function showAll() {
    fit = all;
    draw();
  }

  function show(x, y, scale = view.scale) {
    fit = null;
    Object.assign(view, { x, y, scale });
    draw();
  }

  function pan(x, y) { // pixels
    show(view.x + x / view.scale, view.y + y / view.scale);
  }

  function zoom(factor, x = 0, y = 0) { // pixels from the pane's middle, where the picture stays
    const scale = clamped(view.scale * factor);
    show(view.x + x / view.scale - x / scale, view.y + y / view.scale - y / scale, scale);
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
    hits = wanted ? operators.filter(({ searched }) => searched.includes(wanted)) : [];
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
    const [x, y] = [box.x + shift + box.width / 2, box.y + box.height / 2];
    show(x, y, Math.max(view.scale, READABLE));
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
      pan(dragged.x - event.clientX, dragged.y - event.clientY);
      dragged = { x: event.clientX, y: event.clientY };
      leave();
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
    // Whoever scrolls through a notebook passes over its pictures.
    if (parent !== window && !document.hasFocus() && !event.ctrlKey) return;
    event.preventDefault();
    const { left, top, width, height } = pane.getBoundingClientRect();
    leave();
    const [x, y] = [event.clientX - left - width / 2, event.clientY - top - height / 2];
    zoom(Math.exp(-event.deltaY * 0.0015), x, y);
  }, { passive: false });

  const MOVES = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  const KEYS = {
    "+": () => zoom(STEP), "=": () => zoom(STEP), "-": () => zoom(1 / STEP),
    "0": showAll, "/": () => search.focus(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.target === search || event.ctrlKey || event.metaKey || event.altKey) return;
    const move = MOVES[event.key];
    if (move) {
      pan(60 * move[0], 60 * move[1]);
    } else if (KEYS[event.key]) KEYS[event.key]();
    else return;
    event.preventDefault();
  });
  search.addEventListener("input", find);
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") goToNext(event.shiftKey ? -1 : 1);
    if (event.key === "Escape") { search.value = ""; find(); }
  });
  byId("in").addEventListener("click", () => zoom(STEP));
  byId("out").addEventListener("click", () => zoom(1 / STEP));
  byId("all").addEventListener("click", showAll);
  new ResizeObserver(draw).observe(pane);
  draw();
})();
