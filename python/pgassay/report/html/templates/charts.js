"use strict";
// Replaces each static drawing by a live one; where anything fails the static one stays.
(() => {
  const drawings = JSON.parse(document.getElementById("drawings").textContent);
  const narrow = matchMedia("(max-width: 640px)");
  const options = {
    mode: "vega-lite",
    renderer: "svg",
    actions: false,
    ast: true,
    defaultStyle: false,
    tooltip: { theme: "custom", disableDefaultStyle: true },
    // Errors alone: a layer without rows, such as that of the failures, is no fault.
    logLevel: 1,
  };
  const views = new Map();
  const draw = async (figure) => {
    const specification = drawings[figure.dataset.drawing][narrow.matches ? "narrow" : "wide"];
    const place = figure.querySelector(".live");
    views.get(figure)?.finalize();
    views.set(figure, await vegaEmbed(place, specification, options));
    figure.classList.add("drawn");
  };
  const drawAll = () => Promise.all([...document.querySelectorAll("figure[data-drawing]")].map(draw));
  narrow.addEventListener("change", drawAll);
  drawAll().then(() => {
    document.documentElement.dataset.drawn = document.querySelectorAll("figure.drawn").length;
  });
})();
