// A freeze is planned by drawing over its days.
let from;
const days = () => [...document.querySelectorAll(".days [data-day]")].map((each) => each.dataset.day);
const drawn = (to) => days().filter((day) => (day >= from && day <= to) || (day <= from && day >= to));
const dayAt = (event) => document.elementFromPoint(event.clientX, event.clientY)?.closest("[data-plan] [data-day]")?.dataset.day;
const mark = (chosen) => {
  for (const each of document.querySelectorAll("[data-plan] [data-day]")) each.classList.toggle("drawn", chosen.includes(each.dataset.day));
};
document.addEventListener("pointerdown", (event) => {
  from = event.button === 0 && event.pointerType === "mouse" ? event.target.closest("[data-plan] [data-day]")?.dataset.day : undefined;
});
document.addEventListener("pointermove", (event) => from && mark(drawn(dayAt(event) ?? from)));
document.addEventListener("pointerup", (event) => {
  const to = from && dayAt(event), link = event.target.closest("a");
  if (to && (to !== from || !link)) {
    const chosen = drawn(to), after = new Date(`${chosen.at(-1)}T00:00Z`);
    after.setUTCDate(after.getUTCDate() + 1);
    const address = document.querySelector("[data-plan]").dataset.plan;
    location.href = `${address}?from=${chosen[0]}&to=${after.toISOString().slice(0, 10)}`;
  }
  from = undefined;
  mark([]);
});
document.addEventListener("dragstart", (event) => event.target.closest("[data-plan] [data-day]") && event.preventDefault());
