// What HTML cannot do: show instants in the reader's own time zone, also in what htmx puts into the page.
const local = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const showLocalTimes = () => {
  for (const time of document.querySelectorAll("time[datetime]")) {
    const text = local.format(new Date(time.dateTime));
    if (time.textContent !== text) {
      time.title ||= time.textContent;
      time.textContent = text;
    }
  }
};
showLocalTimes();
document.addEventListener("htmx:after:swap", showLocalTimes);
