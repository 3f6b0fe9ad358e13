#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <thread>

#include "config/fields.hpp"
#include "config/load.hpp"
#include "deploy/millrace/console.hpp"
#include "deploy/millrace/signals.hpp"
#include "runtime/child_process.hpp"
#include "runtime/comparison.hpp"

namespace millrace {
namespace {

namespace fs = std::filesystem;

// One run, in a folder of its own: config.json, steps.jsonl, log.txt, state/; with traffic also traffic.sh,
// traffic.txt, traffic.log, and `finished` once that has come to its end.
struct Plan {
  std::string recipe, variant;
  Settings settings;
  fs::path folder;

  Run run(std::vector<nlohmann::json> steps, std::string failure) const {
    return {recipe, variant, settings.seed, std::move(steps), std::move(failure)};
  }
  std::string name() const { return run({}, "").label() + " seed " + std::to_string(settings.seed); }
  std::string config() const { return to_json(settings).dump(2) + "\n"; }
};

struct Variant {
  std::string name;
  std::vector<std::string> sets;
};

expected<std::vector<Variant>> variants_of(const std::vector<std::string>& texts) {
  std::vector<Variant> variants;
  for (const std::string& text : texts) {
    const std::size_t colon = text.find(':');
    if (colon == 0 || colon == std::string::npos) {
      return fail("--variant " + text + ": expected NAME:key=value, like \"lag 0:max_lag=0\"");
    }
    Variant& variant = variants.emplace_back(Variant{text.substr(0, colon), {}});
    std::istringstream sets(text.substr(colon + 1));
    for (std::string set; std::getline(sets, set, ',');) variant.sets.push_back(set);
  }
  if (variants.empty()) variants.emplace_back();
  return variants;
}

// Letters, digits, dots and dashes.
std::string folder_name(std::string text) {
  for (char& c : text) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '_') c = '-';
  }
  return text;
}

std::string content_of(const fs::path& file) { return read_text_file(file.string()).value_or(""); }

void write(const fs::path& file, const std::string& text) { std::ofstream(file, std::ios::binary) << text; }

expected<std::vector<Plan>> plans_of(const CompareCommand& command) {
  const auto variants = variants_of(command.variants);
  if (!variants) return tl::unexpected(variants.error());
  std::vector<Plan> plans;
  const auto add = [&](const std::string& recipe, const Variant& variant, int seed) -> expected<void> {
    std::vector<std::string> sets = command.sets;
    sets.push_back("recipe=" + recipe);
    sets.insert(sets.end(), variant.sets.begin(), variant.sets.end());
    auto settings = load_program_settings(command.config, sets);
    if (!settings) return tl::unexpected(settings.error());
    settings->seed += static_cast<std::uint64_t>(seed);
    settings->http.port = 0;
    const fs::path out = command.out.empty() ? fs::path("compare") / settings->preset : fs::path(command.out);
    Plan plan{recipe, variant.name, *settings, {}};
    plan.folder = out / (folder_name(plan.run({}, "").label()) + "-seed" + std::to_string(settings->seed));
    plan.settings.state.directory = (plan.folder / "state").string();
    plans.push_back(std::move(plan));
    return {};
  };
  for (int seed = 0; seed < command.seeds; ++seed) {
    for (const std::string& recipe : command.recipes) {
      for (const Variant& variant : *variants) {
        if (auto added = add(recipe, variant, seed); !added) return tl::unexpected(added.error());
      }
    }
  }
  return plans;
}

Run read_run(const Plan& plan) { return plan.run(read_steps(content_of(plan.folder / "steps.jsonl")), ""); }

// The last thing a run said about itself.
std::string last_line(const std::string& log) {
  const std::size_t end = log.find_last_not_of('\n');
  if (end == std::string::npos) return "it said nothing";
  const std::size_t start = log.rfind('\n', end);
  return log.substr(start == std::string::npos ? 0 : start + 1, end - (start == std::string::npos ? 0 : start + 1) + 1);
}

class Progress {
 public:
  explicit Progress(std::size_t runs) : runs_(runs) {}
  void show(std::size_t number, const Plan& plan, const Run& run, std::uint64_t steps) {
    const auto now = std::chrono::steady_clock::now();
    if (now - shown_ < std::chrono::seconds(terminal_ ? 1 : 30)) return;
    shown_ = now;
    std::cerr << (terminal_ ? "\r\033[K" : "") << "[" << number + 1 << "/" << runs_ << "] " << plan.name()
              << ": version " << run.steps.size() << "/" << steps;
    if (!run.steps.empty() && run.steps.back().contains("reward_mean")) {
      std::cerr << ", reward " << run.steps.back()["reward_mean"];
    }
    std::cerr << (terminal_ ? "" : "\n") << std::flush;
  }
  void end() const {
    if (terminal_) std::cerr << "\r\033[K" << std::flush;
  }

 private:
  std::size_t runs_;
  bool terminal_ = isatty(STDERR_FILENO) != 0;
  std::chrono::steady_clock::time_point shown_;
};

// Applications beside a run: begun when its service listens, killed when that has ended.
class Traffic {
 public:
  Traffic(const Plan& plan, std::string command) : folder_(plan.folder), command_(std::move(command)) {}

  // Called again and again. True: it has come to its end, for the first time.
  bool ended() {
    if (command_.empty() || code_) return false;
    if (!child_) begin();
    if (child_) code_ = child_->ended();
    return code_.has_value();
  }
  bool finished() const { return code_ == 0; }
  std::string failure() const {  // empty: none so far
    if (!code_ || *code_ == 0) return "";
    return "the traffic ended with " + std::to_string(*code_) + ": " + last_line(content_of(folder_ / "traffic.log"));
  }

 private:
  void begin() {
    const std::string log = content_of(folder_ / "log.txt");
    const std::size_t scheme = log.find("://", log.find("listening on http")), from = scheme + 3;
    const std::size_t end = log.find_first_of(" \n", from);
    if (scheme == std::string::npos || end == std::string::npos) return;
    const std::string address = log.substr(from, end - from);
    auto started = ChildProcess::start({"/usr/bin/env", "MILLRACE_ADDRESS=" + address, "sh", "-c", command_},
                                       (folder_ / "traffic.txt").string(), (folder_ / "traffic.log").string());
    if (started) {
      child_.emplace(std::move(*started));
    } else {
      code_ = 127;
    }
  }

  fs::path folder_;
  std::string command_;
  std::optional<ChildProcess> child_;
  std::optional<int> code_;
};

Run execute(const Plan& plan, const CompareCommand& command, std::size_t number, Progress& progress,
            const std::atomic<bool>& stopped) {
  const std::uint64_t steps = command.steps;
  const std::chrono::seconds patience(command.patience_s);
  fs::create_directories(plan.folder);
  fs::remove_all(plan.folder / "state");
  fs::remove(plan.folder / "finished");
  write(plan.folder / "config.json", plan.config());
  write(plan.folder / "traffic.sh", command.traffic);
  auto child = ChildProcess::start(
      {own_program(), "serve", (plan.folder / "config.json").string(), "--json", "--steps", std::to_string(steps)},
      (plan.folder / "steps.jsonl").string(), (plan.folder / "log.txt").string());
  if (!child) return plan.run({}, child.error().message);
  std::optional<int> code;
  std::size_t seen = 0;
  auto moved = std::chrono::steady_clock::now();
  bool stuck = false;
  Traffic traffic(plan, command.traffic);
  while (!(code = child->ended())) {
    const Run so_far = read_run(plan);
    const auto now = std::chrono::steady_clock::now();
    if (so_far.steps.size() > seen) moved = now;
    seen = so_far.steps.size();
    if (!stuck && now - moved > patience) {
      stuck = true;
      child->send(SIGTERM);  // once: a second one would cut its drain short
    }
    if (stopped || traffic.ended()) child->send(SIGTERM);
    progress.show(number, plan, so_far, steps);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  Run run = read_run(plan);
  if (*code != 0) {
    run.failure = "exit code " + std::to_string(*code) + ": " + last_line(content_of(plan.folder / "log.txt"));
  } else if (traffic.finished()) {
    write(plan.folder / "finished", "");
  } else if (run.steps.size() < steps) {
    run.failure = stuck                       ? "no step for " + std::to_string(command.patience_s) + " s"
                  : traffic.failure().empty() ? "stopped"
                                              : traffic.failure();
  }
  return run;
}

}  // namespace

int compare(const CompareCommand& command) {
  const auto known = recipe_names();
  for (const std::string& recipe : command.recipes) {
    if (std::find(known.begin(), known.end(), recipe) == known.end()) {
      return complain(bad_use, "--recipes: there is no recipe \"" + recipe + "\" (millrace config schema lists them)");
    }
  }
  const auto plans = plans_of(command);
  if (!plans) return complain(bad_use, plans.error().message);
  block_signals();
  std::atomic<bool> stopped = false;
  SignalWatch watch([&stopped] { stopped = true; }, [] {});

  const fs::path out = plans->front().folder.parent_path();
  Progress progress(plans->size());
  std::vector<Run> runs;
  bool all_well = true;
  for (std::size_t i = 0; i < plans->size() && !stopped; ++i) {
    const Plan& plan = (*plans)[i];
    // What an earlier call has finished with the very same config is not done again.
    Run run = read_run(plan);
    const bool complete = run.steps.size() >= command.steps || fs::exists(plan.folder / "finished");
    const bool same = content_of(plan.folder / "config.json") == plan.config() &&
                      content_of(plan.folder / "traffic.sh") == command.traffic;
    if (!complete || !same) {
      run = execute(plan, command, i, progress, stopped);
    } else {
      run.steps.resize(std::min(run.steps.size(), static_cast<std::size_t>(command.steps)));
    }
    progress.end();
    if (!run.failure.empty()) complain(failed, plan.name() + ": " + run.failure);
    all_well = all_well && run.failure.empty();
    if (command.json) std::cout << figures_of(run).dump() << std::endl;
    runs.push_back(std::move(run));
    write(out / "table.md", markdown_table(runs));
    write(out / "table.csv", csv_table(runs));
    write(out / "picture.svg", svg_picture(runs));
  }
  if (!command.json) std::cout << markdown_table(runs) << std::flush;
  std::cerr << "compare: table.md, table.csv, picture.svg and the runs' configs are in " << out.string() << std::endl;
  return all_well && !stopped ? done : failed;
}

}  // namespace millrace
