"use strict";
// Draws each flame graph of the page from its data: search, zoom, keyboard. Without it the still pictures stay.
(() => {
  const ROW_PX = 18;
  const make = (tag, name, content = "") => {
    const made = document.createElement(tag);
    made.className = name;
    made.textContent = content;
    return made;
  };
  // Times come in ns.
  const time = (ns) => (ns >= 1e6 ? `${(ns / 1e6).toPrecision(3)} ms` : `${(ns / 1e3).toPrecision(3)} µs`);
  const percent = (part, whole) => (whole ? `${((100 * part) / whole).toFixed(1)} %` : "");

  const read = (figure) => {
    const data = JSON.parse(figure.querySelector("script").textContent);
    const frames = [];
    const add = ([number, control, arm, children], parent, depth, left) => {
      const frame = { name: data.names[number], control, arm, parent, depth, left, width: (control + arm) / 2 };
      frames.push(frame);
      frame.children = [];
      let at = left;
      for (const child of children) {
        const made = add(child, frame, depth + 1, at);
        frame.children.push(made);
        at += made.width;
      }
      return frame;
    };
    const root = add(data.tree, null, 0, 0);
    return { data, frames, root };
  };

  const start = (figure) => {
    const { data, frames, root } = read(figure);
    const place = figure.querySelector(".live");
    const bar = make("div", "flame-bar");
    const search = make("input", "");
    search.type = "search";
    search.placeholder = "Search a function";
    search.setAttribute("aria-label", "Search a function");
    const reset = make("button", "", "Whole graph");
    reset.type = "button";
    const found = make("output", "quiet");
    bar.append(search, reset, found);
    const canvas = make("div", "flame-canvas");
    canvas.setAttribute("role", "tree");
    canvas.setAttribute("aria-label", figure.getAttribute("aria-label"));
    const details = make("div", "flame-details quiet");
    details.setAttribute("aria-live", "polite");
    place.append(bar, canvas, details);
    let zoomed = root;
    let current = root;

    const describe = (frame) => {
      if (data.control === data.arm) {
        const part = percent(frame.width, root.width);
        details.textContent = `${frame.name}: ${time(frame.arm)} per ${data.unit}; ${part} of all`;
        return;
      }
      const change = frame.control ? ` (${(frame.arm / frame.control).toFixed(3)}×)` : "";
      details.textContent =
        `${frame.name}: ${time(frame.control)} in ${data.control}, ${time(frame.arm)} in ${data.arm}` +
        `${change} per ${data.unit}; ${percent(frame.width, root.width)} of all`;
    };
    const colour = (frame) => {
      const greater = Math.max(frame.control, frame.arm);
      const change = greater ? (frame.arm - frame.control) / greater : 0;
      // A difference of a few samples is pale: two standard deviations of counting them take the whole colour.
      const noise = 2 * Math.sqrt((frame.control + frame.arm) * data.sample);
      const certainty = noise ? Math.min(1, Math.abs(frame.arm - frame.control) / noise) : 0;
      const strength = Math.round(Math.min(1, Math.abs(change) * 2) * certainty * 65);
      return `color-mix(in srgb, var(--${change > 0 ? "bad" : "same"}) ${strength}%, var(--band))`;
    };
    const matches = (frame) => search.value && frame.name.toLowerCase().includes(search.value.toLowerCase());
    const focus = (frame) => {
      if (!frame?.node?.isConnected) return;
      if (current.node) current.node.tabIndex = -1;
      current = frame;
      frame.node.tabIndex = 0;
      frame.node.focus({ preventScroll: true });
    };

    const show = (frame, left, width) => {
      const node = make("div", width > 0.02 ? "flame-frame named" : "flame-frame", width > 0.02 ? frame.name : "");
      node.setAttribute("role", "treeitem");
      node.setAttribute("aria-label", `${frame.name}, ${percent(frame.width, root.width)}`);
      node.tabIndex = -1;
      node.style.left = `${100 * left}%`;
      node.style.width = `${100 * width}%`;
      node.style.top = `${frame.depth * ROW_PX}px`;
      node.style.background = colour(frame);
      node.frame = frame;
      frame.node = node;
      return node;
    };
    const draw = () => {
      const shown = document.createDocumentFragment();
      let deepest = 0;
      for (const frame of frames) frame.node = null;
      for (let frame = zoomed.parent; frame; frame = frame.parent) shown.append(show(frame, 0, 1));
      const waiting = [zoomed];
      while (waiting.length) {
        const frame = waiting.pop();
        const width = frame.width / (zoomed.width || 1);
        // Narrower than a tenth of a pixel of a wide page.
        if (width < 0.0001) continue;
        deepest = Math.max(deepest, frame.depth);
        shown.append(show(frame, (frame.left - zoomed.left) / (zoomed.width || 1), width));
        waiting.push(...frame.children);
      }
      canvas.replaceChildren(shown);
      canvas.style.height = `${(deepest + 1) * ROW_PX}px`;
      reset.disabled = zoomed === root;
      mark();
      current = zoomed;
      if (zoomed.node) zoomed.node.tabIndex = 0;
      describe(zoomed);
    };
    const mark = () => {
      let width = 0;
      for (const frame of frames) {
        let inside = false;
        for (let above = frame.parent; above && !inside; above = above.parent) inside = matches(above);
        const isFound = matches(frame);
        if (isFound && !inside) width += frame.width;
        frame.node?.classList.toggle("found", Boolean(isFound));
      }
      canvas.classList.toggle("searched", Boolean(search.value));
      found.textContent = search.value ? `${percent(width, root.width)} of all time` : "";
    };
    const zoom = (frame) => {
      const hadFocus = canvas.contains(document.activeElement);
      zoomed = frame;
      draw();
      if (hadFocus) focus(frame);
    };

    const keys = {
      ArrowDown: (frame) => focus([...frame.children].sort((a, b) => b.width - a.width)[0]),
      ArrowUp: (frame) => focus(frame.parent),
      ArrowLeft: (frame) => focus(frame.parent?.children[frame.parent.children.indexOf(frame) - 1]),
      ArrowRight: (frame) => focus(frame.parent?.children[frame.parent.children.indexOf(frame) + 1]),
      Enter: zoom,
      " ": zoom,
      Escape: () => zoom(root),
    };
    canvas.addEventListener("keydown", (event) => {
      const act = keys[event.key];
      if (!act || !event.target.frame) return;
      event.preventDefault();
      act(event.target.frame);
    });
    canvas.addEventListener("click", (event) => event.target.frame && zoom(event.target.frame));
    for (const kind of ["mouseover", "focusin"]) {
      canvas.addEventListener(kind, (event) => event.target.frame && describe(event.target.frame));
    }
    search.addEventListener("input", mark);
    reset.addEventListener("click", () => zoom(root));
    draw();
    figure.classList.add("drawn");
  };
  const began = performance.now();
  const figures = [...document.querySelectorAll("figure.flame")];
  figures.forEach(start);
  document.documentElement.dataset.flames = figures.length;
  document.documentElement.dataset.flamesMs = Math.round(performance.now() - began);
})();
