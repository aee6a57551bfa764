// Replaces the plain list of operations by the whole contract.

// The menu of the renderer has a logo of another host, which no option leaves out. It leaves out what cannot be loaded,
// so images of other hosts get an address that asks nobody. The renderer sets both the attribute and the property.
const reachesOut = (address) => /^(https?:)?\/\//.test(address) && new URL(address, location).origin !== location.origin;
HTMLImageElement.prototype.setAttribute = function (name, value) {
  Element.prototype.setAttribute.call(this, name, name === "src" && reachesOut(value) ? "data:," : value);
};
Object.defineProperty(HTMLImageElement.prototype, "src", { set(value) { this.setAttribute("src", value); } });

const content = document.getElementById("content");
content.dataset.rendered = "";
Redoc.init(
  "/openapi.json",
  {
    hideDownloadButton: true,
    nativeScrollbars: true,
    jsonSampleExpandLevel: "all",
    scrollYOffset: "body > header",
    showExtensions: [
      "x-effect", "x-least-role", "x-installation", "x-entitlement", "x-mcp-tool", "x-audit", "x-errors", "x-error-code",
      "x-scopes",
    ],
    theme: {
      colors: { primary: { main: "#0b5fae" }, text: { primary: "#1d2733" } },
      typography: {
        fontSize: "15px",
        fontFamily: 'system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif',
        headings: { fontFamily: 'system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif' },
        code: { fontSize: "13px", color: "#8a2a1c", fontFamily: 'ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace' },
      },
    },
  },
  content,
);
