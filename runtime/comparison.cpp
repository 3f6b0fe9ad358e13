#include "runtime/comparison.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <sstream>

namespace millrace {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using Numbers = std::vector<double>;

double mean_of(const Numbers& numbers) {
  double sum = 0;
  for (const double number : numbers) sum += number;
  return numbers.empty() ? std::nan("") : sum / static_cast<double>(numbers.size());
}

double deviation_of(const Numbers& numbers) {
  if (numbers.size() < 2) return std::nan("");
  const double mean = mean_of(numbers);
  double squares = 0;
  for (const double number : numbers) squares += (number - mean) * (number - mean);
  return std::sqrt(squares / static_cast<double>(numbers.size() - 1));
}

double number_of(const json& step, const char* name) {
  const auto found = step.find(name);
  return found != step.end() && found->is_number() ? found->get<double>() : std::nan("");
}

// The figure in steps [begin, end); what is no number is left out.
Numbers series(const Run& run, const char* name, std::size_t begin, std::size_t end) {
  Numbers numbers;
  for (std::size_t i = begin; i < std::min(end, run.steps.size()); ++i) {
    const double number = number_of(run.steps[i], name);
    if (std::isfinite(number)) numbers.push_back(number);
  }
  return numbers;
}

Numbers series(const Run& run, const char* name) { return series(run, name, 0, run.steps.size()); }

std::vector<std::string> labels_in(const std::vector<Run>& runs) {
  std::vector<std::string> names;
  for (const Run& run : runs) {
    if (std::find(names.begin(), names.end(), run.label()) == names.end()) names.push_back(run.label());
  }
  return names;
}

std::string text_of(double number, int digits) {
  if (!std::isfinite(number)) return "";
  char text[40];
  std::snprintf(text, sizeof text, "%.*f", digits, number);
  return text;
}

struct Column {
  const char* figure;
  const char* title;
  int digits;
};
constexpr Column columns[] = {{"reward_first", "reward, first tenth", 3},
                              {"reward_last", "reward, last fifth", 3},
                              {"reward_best", "best ten steps", 3},
                              {"masked_share", "masked or clipped", 4},
                              {"effective_sample_size", "effective sample size", 3},
                              {"lag_mean", "lag", 2},
                              {"entropy_last", "entropy, last fifth", 2},
                              {"explained_variance_last", "explained variance", 2},
                              {"step_seconds", "s a step", 2},
                              {"trajectories_per_second", "trajectories/s", 1},
                              {"reward_per_minute", "reward a minute", 0}};

// One panel of the picture.
struct Panel {
  const char* figure;
  const char* title;
};
constexpr Panel panels[] = {{"reward_mean", "mean reward of a step"},
                            {"masked_share", "share of tokens masked or clipped"},
                            {"entropy", "entropy, nats"},
                            {"explained_variance", "explained variance"}};
constexpr const char* colours[] = {"#2563eb", "#dc2626", "#059669", "#d97706",
                                   "#7c3aed", "#0891b2", "#be185d", "#4d7c0f"};
constexpr double width = 460, height = 260, left = 52, right = 12, top = 30, bottom = 34;

struct Point {
  double version, mean, low, high;
};

// Mean and range over the seeds at each version that at least one of them has reached.
std::vector<Point> curve_of(const std::vector<Run>& runs, const std::string& label, const char* figure) {
  std::map<double, Numbers> at;
  for (const Run& run : runs) {
    if (run.label() != label) continue;
    for (const json& step : run.steps) {
      const double number = number_of(step, figure);
      if (std::isfinite(number)) at[number_of(step, "policy_version")].push_back(number);
    }
  }
  std::vector<Point> points;
  for (const auto& [version, numbers] : at) {
    const auto [low, high] = std::minmax_element(numbers.begin(), numbers.end());
    points.push_back({version, mean_of(numbers), *low, *high});
  }
  return points;
}

class Drawing {
 public:
  void text(double x, double y, const std::string& words, const char* anchor, const char* colour) {
    out_ << "<text x=\"" << x << "\" y=\"" << y << "\" text-anchor=\"" << anchor << "\" fill=\"" << colour << "\">"
         << words << "</text>\n";
  }
  void line(double x1, double y1, double x2, double y2) {
    out_ << "<line x1=\"" << x1 << "\" y1=\"" << y1 << "\" x2=\"" << x2 << "\" y2=\"" << y2
         << "\" stroke=\"#e5e7eb\"/>\n";
  }
  void shape(const char* tag, const std::string& points, const std::string& style) {
    out_ << "<" << tag << " points=\"" << points << "\" " << style << "/>\n";
  }
  std::string str() const { return out_.str(); }

 private:
  std::ostringstream out_;
};

void draw_panel(Drawing& drawing, const std::vector<Run>& runs, const Panel& panel, double x0, double y0) {
  std::map<std::string, std::vector<Point>> curves;
  double last = 1, low = 0, high = 1e-9;
  for (const std::string& label : labels_in(runs)) {
    auto& curve = curves[label] = curve_of(runs, label, panel.figure);
    for (const Point& point : curve) {
      last = std::max(last, point.version);
      low = std::min(low, std::max(point.low, -1.0));  // an explained variance may be far below
      high = std::max(high, point.high);
    }
  }
  const auto x = [&](double version) { return x0 + left + (width - left - right) * version / last; };
  const auto y = [&](double value) {
    const double place = (std::clamp(value, low, high) - low) / (high - low);
    return y0 + height - bottom - (height - top - bottom) * place;
  };
  drawing.text(x0 + left, y0 + top - 12, panel.title, "start", "#111");
  for (int i = 0; i <= 4; ++i) {
    const double value = low + (high - low) * i / 4;
    drawing.line(x0 + left, y(value), x0 + width - right, y(value));
    drawing.text(x0 + left - 6, y(value) + 4, text_of(value, high - low < 0.2 ? 3 : 2), "end", "#555");
    drawing.text(x(last * i / 4), y0 + height - bottom + 16, text_of(last * i / 4, 0), "middle", "#555");
  }
  std::size_t number = 0;
  for (const std::string& label : labels_in(runs)) {
    const std::string colour = colours[number++ % std::size(colours)];
    std::ostringstream mean, band, back;
    const auto& curve = curves[label];
    for (std::size_t i = 0; i < curve.size(); ++i) {
      mean << x(curve[i].version) << "," << y(curve[i].mean) << " ";
      band << x(curve[i].version) << "," << y(curve[i].high) << " ";
      const Point& from_end = curve[curve.size() - 1 - i];
      back << x(from_end.version) << "," << y(from_end.low) << " ";
    }
    drawing.shape("polygon", band.str() + back.str(), "fill=\"" + colour + "\" fill-opacity=\"0.12\"");
    drawing.shape("polyline", mean.str(), "fill=\"none\" stroke=\"" + colour + "\" stroke-width=\"1.6\"");
  }
}

}  // namespace

std::vector<json> read_steps(const std::string& text) {
  std::vector<json> steps;
  std::istringstream lines(text.substr(0, text.rfind('\n') + 1));
  for (std::string line; std::getline(lines, line);) {
    json step = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (step.is_object()) steps.push_back(std::move(step));
  }
  return steps;
}

ordered_json figures_of(const Run& run) {
  const std::size_t count = run.steps.size();
  const std::size_t tenth = std::max<std::size_t>(1, count / 10), fifth = std::max<std::size_t>(1, count / 5);
  const auto mean = [&](const char* name) { return mean_of(series(run, name)); };
  const auto last = [&](const char* name) { return mean_of(series(run, name, count - std::min(count, fifth), count)); };
  double best = std::nan(""), seconds = 0;
  constexpr std::size_t in_a_row = 10;
  for (std::size_t i = 0; i + in_a_row <= count; ++i) {
    best = std::fmax(best, mean_of(series(run, "reward_mean", i, i + in_a_row)));
  }
  for (const double step : series(run, "step_seconds")) seconds += step;
  double trajectories = 0, reward = 0;
  for (const json& step : run.steps) {
    trajectories += number_of(step, "trajectories");
    reward += number_of(step, "trajectories") * number_of(step, "reward_mean");
  }
  return {{"recipe", run.recipe},
          {"variant", run.variant},
          {"seed", run.seed},
          {"steps", count},
          {"failure", run.failure},
          {"reward_first", mean_of(series(run, "reward_mean", 0, tenth))},
          {"reward_last", last("reward_mean")},
          {"reward_mean", mean("reward_mean")},
          {"reward_best", best},
          {"masked_share", mean("masked_share")},
          {"effective_sample_size", mean("effective_sample_size")},
          {"lag_mean", mean("lag_mean")},
          {"entropy_last", last("entropy")},
          {"explained_variance_last", last("explained_variance")},
          {"policy_gradient_norm", mean("policy_gradient_norm")},
          {"value_gradient_norm", mean("value_gradient_norm")},
          {"seconds", seconds},
          {"generated_tokens_per_second", mean("generated_tokens_per_second")},
          {"step_seconds", mean("step_seconds")},
          {"trajectories_per_second", trajectories / seconds},
          {"reward_per_minute", 60 * reward / seconds}};
}

std::string markdown_table(const std::vector<Run>& runs) {
  std::string head = "| recipe | seeds | failed |", rule = "| --- | --- | --- |", body;
  for (const Column& column : columns) {
    head += std::string(" ") + column.title + " |";
    rule += " --- |";
  }
  for (const std::string& label : labels_in(runs)) {
    std::map<std::string, Numbers> figures;
    int seeds = 0, failed = 0;
    for (const Run& run : runs) {
      if (run.label() != label) continue;
      ++seeds;
      failed += run.failure.empty() ? 0 : 1;
      const json of_run = figures_of(run);
      for (const Column& column : columns) {
        const double number = number_of(of_run, column.figure);
        if (std::isfinite(number)) figures[column.figure].push_back(number);
      }
    }
    body += "| `" + label + "` | " + std::to_string(seeds) + " | " + std::to_string(failed) + " |";
    for (const Column& column : columns) {
      const Numbers& numbers = figures[column.figure];
      const std::string spread = text_of(deviation_of(numbers), column.digits);
      body += " " + text_of(mean_of(numbers), column.digits) + (spread.empty() ? "" : " ± " + spread) + " |";
    }
    body += "\n";
  }
  return head + "\n" + rule + "\n" + body;
}

std::string csv_table(const std::vector<Run>& runs) {
  std::string text;
  for (const Run& run : runs) {
    const ordered_json figures = figures_of(run);
    std::string names, values;
    for (const auto& [name, value] : figures.items()) {
      names += (names.empty() ? "" : ",") + name;
      std::string cell = value.is_string() ? value.get<std::string>() : value.is_null() ? "" : value.dump();
      if (cell == "null") cell.clear();  // NaN
      if (cell.find_first_of(",\"\n") != std::string::npos) {
        std::string quoted;
        for (const char c : cell) quoted += c == '"' ? "\"\"" : std::string(1, c == '\n' ? ' ' : c);
        cell = "\"" + quoted + "\"";
      }
      values += (values.empty() ? "" : ",") + cell;
    }
    if (text.empty()) text = names + "\n";
    text += values + "\n";
  }
  return text;
}

std::string svg_picture(const std::vector<Run>& runs) {
  const auto names = labels_in(runs);
  constexpr double legend = 26;
  std::ostringstream out;
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << 2 * width << " " << 2 * height + legend
      << "\" font-family=\"sans-serif\" font-size=\"12\"><rect width=\"" << 2 * width << "\" height=\""
      << 2 * height + legend << "\" fill=\"white\"/>\n";
  Drawing drawing;
  for (std::size_t i = 0; i < names.size(); ++i) {
    drawing.text(left + static_cast<double>(i) * (2 * width - left) / static_cast<double>(names.size()), 18, names[i],
                 "start", colours[i % std::size(colours)]);
  }
  for (std::size_t i = 0; i < std::size(panels); ++i) {
    draw_panel(drawing, runs, panels[i], i % 2 == 0 ? 0 : width, legend + (i < 2 ? 0 : height));
  }
  out << drawing.str() << "</svg>\n";
  return out.str();
}

}  // namespace millrace
