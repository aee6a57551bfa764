// Replaces the plain list of operations by the whole contract.
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
