// The four live charts over policy versions, drawn by Chart.js (Debian's libjs-chart.js).
const kept = 600;  // steps
const marked = [];  // {x, name}
const charts = [];

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

const marks = {
  id: "marks",
  afterDatasetsDraw(chart) {
    const { ctx, chartArea, scales } = chart;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = color("mark");
    ctx.setLineDash([5, 4]);
    ctx.font = "11px system-ui, sans-serif";
    for (const { x, name } of marked) {
      const at = scales.x.getPixelForValue(x);
      if (at < chartArea.left || at > chartArea.right) continue;
      ctx.beginPath();
      ctx.moveTo(at, chartArea.top);
      ctx.lineTo(at, chartArea.bottom);
      ctx.stroke();
      if (!chart.options.namesMarks) continue;
      ctx.textAlign = at > (chartArea.left + chartArea.right) / 2 ? "right" : "left";
      ctx.fillText(` ${name} `, at, chartArea.top + 10);
    }
    ctx.restore();
  },
};

const percent = (value) => `${Math.round(value * 1000) / 10} %`;

function line(label, tone, field, more = {}) {
  return { label, tone, field, data: [], borderWidth: 2, pointRadius: 0, pointHitRadius: 12, tension: 0.25, ...more };
}

function chart(id, datasets, { left, right, format = String, namesMarks = false, low, high }) {
  const axis = (title, more = {}) => ({
    title: { display: true, text: title }, beginAtZero: low === undefined, suggestedMin: low, suggestedMax: high,
    ticks: { maxTicksLimit: 6, callback: format }, ...more,
  });
  const scales = {
    x: { type: "linear", bounds: "data", title: { display: true, text: "policy version" }, ticks: { maxTicksLimit: 8, precision: 0 }, grid: { display: false } },
    y: axis(left),
  };
  if (right) scales.lag = axis(right, { position: "right", grid: { drawOnChartArea: false }, suggestedMin: 0, suggestedMax: 4, ticks: { precision: 0, maxTicksLimit: 6 } });
  charts.push(new Chart(document.getElementById(id), {
    type: "line",
    data: { datasets },
    plugins: [marks],
    options: {
      namesMarks, scales, parsing: false, animation: false, responsive: true, maintainAspectRatio: false, normalized: true,
      spanGaps: false, interaction: { mode: "index", intersect: false },
      plugins: {
        legend: { display: datasets.length > 1, position: "bottom", labels: { boxWidth: 14, boxHeight: 2 } },
        tooltip: { callbacks: { title: (items) => `version ${items[0]?.parsed.x ?? ""}` } },
      },
    },
  }));
}

export function repaint() {
  Chart.defaults.color = color("dim");
  for (const one of charts) {
    for (const scale of Object.values(one.options.scales)) {
      scale.ticks.color = color("dim");
      scale.title.color = color("dim");
      scale.grid = { ...scale.grid, color: color("line"), borderColor: color("line") };
    }
    one.options.plugins.legend.labels.color = color("text");
    for (const set of one.data.datasets) {
      set.borderColor = color(set.tone);
      set.backgroundColor = set.fill ? color(set.tone) + "22" : color(set.tone);
    }
    one.update("none");
  }
}

export function drawCharts() {
  Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
  chart("c-throughput", [
    line("generated", "two", "generated_tokens_per_second"),
    line("trained", "one", "trained_tokens_per_second"),
    line("lag, mean", "three", "lag_mean", { yAxisID: "lag", borderDash: [6, 4] }),
  ], { left: "tokens a second", right: "versions" });
  chart("c-reward", [line("reward", "one", "reward_mean", { fill: true })],
    { left: "mean of a step", namesMarks: true });
  chart("c-explained", [line("explained variance", "three", "explained_variance")],
    { left: "share", format: percent, low: -0.2, high: 1 });
  chart("c-masked", [line("masked", "four", "masked_share", { fill: true })],
    { left: "share of tokens", format: percent, high: 0.2 });
  repaint();
}

let due = false;
function soon() {
  if (due) return;
  due = true;
  requestAnimationFrame(() => {
    due = false;
    for (const one of charts) one.update("none");
  });
}

export function addStep(step) {
  for (const one of charts) {
    for (const set of one.data.datasets) {
      const last = set.data.at(-1);
      if (last && step.policy_version <= last.x) {  // another run, or a version told twice
        if (step.policy_version === last.x) continue;
        set.data.length = 0;
      }
      set.data.push({ x: step.policy_version, y: step[set.field] ?? NaN });
      if (set.data.length > kept) set.data.shift();
    }
  }
  soon();
}

export function addMark(version, name) {
  marked.push({ x: version, name });
  soon();
}
