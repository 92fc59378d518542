// The palette of theme.json for the page, and how an event finds its colour in it. A test holds the two files together
// and compares these functions with those of cudalens/views/theme.py.

export const TIMELINE_THEME = {
  "comm_prefixes": ["nccl", "ncclDev", "rccl"],
  "groups": [
    {"key": "kernel", "label": "Kernel", "color": "#009e73", "cats": ["kernel"]},
    {"key": "comm", "label": "Communication", "color": "#d55e00", "cats": []},
    {"key": "memory", "label": "Copy, set", "color": "#f0e442", "cats": ["gpu_memcpy", "gpu_memset"]},
    {"key": "runtime", "label": "CUDA call", "color": "#e69f00", "cats": ["cuda_runtime", "cuda_driver", "privateuse1_runtime", "privateuse1_driver", "mtia_runtime", "xpu_runtime"]},
    {"key": "op", "label": "CPU op", "color": "#56b4e9", "cats": ["cpu_op"]},
    {"key": "range", "label": "Range", "color": "#cc79a7", "cats": ["user_annotation", "gpu_user_annotation"]},
    {"key": "python", "label": "Python", "color": "#c0cad6", "cats": ["python_function"]},
    {"key": "sync", "label": "Sync, overhead", "color": "#0072b2", "cats": ["cuda_sync", "overhead"]},
    {"key": "other", "label": "Other", "color": "#6b6f76", "cats": []}
  ],
  "light": {
    "bg": "#ffffff", "gutter": "#f6f8fa", "text": "#1b1f24", "muted": "#59636e", "line": "#d0d7de", "lineSoft": "#eaeef2",
    "laneOdd": "#ffffff", "band": "#0072b2", "bandAlpha": 0.06, "accent": "#0b62c4", "rangeAlpha": 0.14, "arrow": "#6e3c00",
    "dim": "#d9dee4", "tip": "#1b1f24", "tipText": "#ffffff", "field": "#ffffff", "ink": "#000000",
    "shades": [["#ffffff", 0.0], ["#ffffff", 0.14], ["#ffffff", 0.22], ["#000000", 0.08], ["#ffffff", 0.32]]
  },
  "dark": {
    "bg": "#111418", "gutter": "#15191e", "text": "#e6e9ed", "muted": "#9aa5b1", "line": "#343b44", "lineSoft": "#242a31",
    "laneOdd": "#111418", "band": "#56b4e9", "bandAlpha": 0.07, "accent": "#6cb6ff", "rangeAlpha": 0.18, "arrow": "#ffd08a",
    "dim": "#2b323a", "tip": "#e6e9ed", "tipText": "#111418", "field": "#1b2026", "ink": "#000000",
    "shades": [["#000000", 0.06], ["#000000", 0.16], ["#000000", 0.24], ["#ffffff", 0.1], ["#ffffff", 0.2]]
  }
};

// Index into TIMELINE_THEME.groups by category and name: kernels of a communication library have their own hue.
export function themeGroup(category, name) {
  const { groups } = TIMELINE_THEME;
  const found = groups.findIndex((group) => group.cats.includes(category));
  if (found < 0) return groups.length - 1;
  const isComm = groups[found].key === "kernel" && TIMELINE_THEME.comm_prefixes.some((p) => name.startsWith(p));
  return isComm ? groups.findIndex((group) => group.key === "comm") : found;
}

// FNV-1a over UTF-16 units, 32 bits.
export function themeHash(name) {
  let value = 0x811c9dc5;
  for (let i = 0; i < name.length; i++) value = Math.imul(value ^ name.charCodeAt(i), 0x01000193);
  return value >>> 0;
}

const themeRgb = (color) => [1, 3, 5].map((k) => parseInt(color.slice(k, k + 2), 16));

// `color` with `share` of `toward` mixed in, as [r, g, b].
export function themeMix(color, toward, share) {
  const other = themeRgb(toward);
  return themeRgb(color).map((a, k) => Math.floor(a + (other[k] - a) * share + 0.5));
}

// Relative luminance of [r, g, b] by WCAG 2.2.
export function themeLuminance(rgb) {
  const [r, g, b] = rgb.map((v) => v / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

// Number of tones: every group in every shade. Tone of an event = group * shades + shade.
export const THEME_SHADES = TIMELINE_THEME.light.shades.length;

// Colours of all tones in a mode: packed ABGR without alpha for pixels, css for shapes, and black or white to write on it.
export function themeTones(mode) {
  const { shades } = TIMELINE_THEME[mode];
  const all = TIMELINE_THEME.groups.flatMap((group) => shades.map(([toward, share]) => themeMix(group.color, toward, share)));
  return {
    pixels: Uint32Array.from(all, ([r, g, b]) => ((b << 16) | (g << 8) | r) >>> 0),
    css: all.map((rgb) => `rgb(${rgb.join(",")})`),
    ink: all.map((rgb) => ((themeLuminance(rgb) + 0.05) ** 2 > 0.05 * 1.05 ? "#000000" : "#ffffff")),
  };
}
