#include "runtime/metrics.hpp"

#include <sys/wait.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <sstream>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/clock.hpp"

using namespace millrace;

namespace {

// The line of a series, "" if there is none: series is the name with its labels as they are printed.
std::string value_of(const std::string& text, const std::string& series) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(series + " ")) return line.substr(series.size() + 1);
  }
  return "";
}

long line_count(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

// What a service reports in its life, with names that are its own (ids, paths, error texts) wherever text is taken.
void use_all(Metrics& metrics, int round) {
  const std::string own = "session-" + std::to_string(round) + ": cannot open /tmp/x";
  metrics.policy_version(static_cast<Version>(round));
  metrics.value_version(static_cast<std::uint64_t>(round));
  metrics.reward_spec(1);
  metrics.preference_shift(1);
  metrics.lifetime_trained(static_cast<std::uint64_t>(round));
  metrics.tokens_generated(10, 20);
  metrics.judged({3, 1, 2}, 24, true);
  metrics.reward_lag(1);
  metrics.outcome(Outcome::trained, 24);
  metrics.stages({1, 1, 1, 1, 1, 1});
  metrics.reward(0.5, 1);
  metrics.gate_decision(own.c_str(), own.c_str());
  metrics.gate(1, 2, 3, 4);
  metrics.value_step(1, 1, 1e-5);
  metrics.policy_step({}, 1e-6, 1, 1, 1);
  metrics.explained_variance(0.5);
  metrics.step_skipped("policy");
  metrics.publish(true, 0.1, 0.1);
  metrics.environment_error(own, own.c_str());
  metrics.actor_restart(own.c_str());
  metrics.mailbox(own.c_str(), 3);
  metrics.ledger_commit(0.01, 1);
  metrics.http(own.c_str(), own.c_str(), 200 + round % 3, 0.01);
}

int promtool_check(const std::string& text, const std::string& metrics_command) {
  FILE* promtool = ::popen(metrics_command.c_str(), "w");
  REQUIRE(promtool);
  std::fwrite(text.data(), 1, text.size(), promtool);
  return WEXITSTATUS(::pclose(promtool));
}

}  // namespace

TEST_CASE("lag is observed once a token, in every stage") {
  Metrics metrics;
  metrics.judged({4, 1, 3}, 24, true);
  metrics.judged({2, 0, 2}, 6, true);
  metrics.judged({70, 64, 6}, 5, false);
  const std::string text = metrics.text();
  const auto bucket = [&](const char* stage, const char* verdict, const char* le) {
    return value_of(text, std::string("millrace_policy_lag_versions_bucket{stage=\"") + stage + "\",verdict=\"" +
                              verdict + "\",le=\"" + le + "\"}");
  };
  CHECK(bucket("total", "trained", "1") == "0");
  CHECK(bucket("total", "trained", "2") == "6");
  CHECK(bucket("total", "trained", "3") == "6");
  CHECK(bucket("total", "trained", "4") == "30");
  CHECK(bucket("total", "trained", "+Inf") == "30");
  CHECK(bucket("in_flight", "trained", "0") == "6");
  CHECK(bucket("in_flight", "trained", "1") == "30");
  CHECK(bucket("in_queue", "trained", "2") == "6");
  CHECK(bucket("in_queue", "trained", "3") == "30");
  CHECK(bucket("total", "rejected", "64") == "0");
  CHECK(bucket("total", "rejected", "+Inf") == "5");
  CHECK(bucket("in_flight", "rejected", "64") == "5");
  CHECK(value_of(text, "millrace_policy_lag_versions_sum{stage=\"total\",verdict=\"trained\"}") == "108");
  CHECK(value_of(text, "millrace_policy_lag_versions_count{stage=\"total\",verdict=\"trained\"}") == "30");
}

TEST_CASE("every label combination is there before anything has happened") {
  const std::string text = Metrics().text();
  for (const char* outcome :
       {"trained", "stale", "expired", "env_failed", "score_failed", "invalid", "skipped", "rolled_back",
        "aborted"}) {
    CAPTURE(outcome);
    CHECK(value_of(text, "millrace_trajectories_total{outcome=\"" + std::string(outcome) + "\"}") == "0");
    CHECK(value_of(text, "millrace_trajectory_tokens_count{outcome=\"" + std::string(outcome) + "\"}") == "0");
  }
  for (const char* series :
       {"millrace_policy_lag_versions_count{stage=\"in_queue\",verdict=\"rejected\"}",
        "millrace_stage_duration_seconds_count{stage=\"learn\"}", "millrace_train_steps_total{learner=\"value\"}",
        "millrace_gate_decisions_total{decision=\"grant\",reason=\"capacity\"}",
        "millrace_masked_tokens_total{side=\"high\"}", "millrace_weight_publishes_total{result=\"failed\"}",
        "millrace_env_errors_total{environment=\"writing\",kind=\"error\"}",
        "millrace_actor_restarts_total{actor=\"session\"}", "millrace_policy_version",
        "millrace_preference_shifts_total", "millrace_ledger_commit_duration_seconds_count",
        "millrace_queue_depth{queue=\"trajectories\"}"}) {
    CAPTURE(series);
    CHECK(value_of(text, series) == "0");
  }
  CHECK(value_of(text, "millrace_explained_variance_ratio") == "NaN");
}

TEST_CASE("each member reaches its series") {
  Metrics metrics;
  use_all(metrics, 7);
  metrics.outcome(Outcome::stale, 100);
  StepReport report;
  report.policy_gradient_norm = 0.25;
  report.trained_tokens = 96;
  report.effective_sample_size = 0.5;
  report.entropy = 2.5;
  report.kl = 0.125;
  metrics.policy_step(report, 1e-6, 3, 2, 4);
  const std::string text = metrics.text();
  const std::pair<const char*, const char*> right[] = {
      {"millrace_policy_version", "7"},
      {"millrace_value_version", "7"},
      {"millrace_reward_spec_version", "1"},
      {"millrace_lifetime_trained_trajectories", "7"},
      {"millrace_prompt_tokens_total", "10"},
      {"millrace_generated_tokens_total", "20"},
      {"millrace_trained_tokens_total", "96"},
      {"millrace_trajectories_total{outcome=\"stale\"}", "1"},
      {"millrace_trajectory_tokens_sum{outcome=\"stale\"}", "100"},
      {"millrace_gate_capacity", "1"},
      {"millrace_sessions{state=\"running\"}", "2"},
      {"millrace_queue_depth{queue=\"trajectories\"}", "3"},
      {"millrace_queue_capacity{queue=\"trajectories\"}", "4"},
      {"millrace_train_steps_total{learner=\"policy\"}", "2"},
      {"millrace_train_step_duration_seconds_sum{learner=\"policy\",phase=\"update\"}", "4"},
      {"millrace_train_steps_skipped_total{learner=\"policy\"}", "1"},
      {"millrace_masked_tokens_total{side=\"low\"}", "3"},
      {"millrace_masked_tokens_total{side=\"high\"}", "5"},
      {"millrace_effective_sample_size_ratio", "0.5"},
      {"millrace_explained_variance_ratio", "0.5"},
      {"millrace_entropy_nats", "2.5"},
      {"millrace_kl_nats", "0.125"},
      {"millrace_gradient_norm{learner=\"policy\"}", "0.25"},
      {"millrace_gradient_norm{learner=\"value\"}", "1"},
      {"millrace_weight_publishes_total{result=\"ok\"}", "1"},
      {"millrace_ledger_records_total", "1"},
      {"millrace_build_info{compiler=\"g++ " __VERSION__ "\",version=\"0.1.0\"}", "1"},
  };
  for (const auto& [series, value] : right) {
    CAPTURE(series);
    CHECK(value_of(text, series) == value);
  }
  const double now = unix_now();
  CHECK(std::stod(value_of(text, "millrace_train_last_step_timestamp_seconds{learner=\"policy\"}")) ==
        doctest::Approx(now).epsilon(1e-8));
}

TEST_CASE("reward_mean is the mean of the last 128") {
  Metrics metrics;
  for (int i = 0; i < 50; ++i) metrics.reward(100, 1);
  for (int i = 0; i < 64; ++i) metrics.reward(0.25, 1);
  for (int i = 0; i < 64; ++i) metrics.reward(0.75, 1);
  CHECK(value_of(metrics.text(), "millrace_reward_mean{window=\"128\"}") == "0.5");
  CHECK(value_of(metrics.text(), "millrace_reward_count") == "178");
}

TEST_CASE("a stage a trajectory never came to is not observed as zero seconds") {
  Metrics metrics;
  StageSeconds seconds;
  seconds.generate = 2;
  metrics.stages(seconds);
  CHECK(value_of(metrics.text(), "millrace_stage_duration_seconds_count{stage=\"generate\"}") == "1");
  CHECK(value_of(metrics.text(), "millrace_stage_duration_seconds_count{stage=\"learn\"}") == "0");
}

// Fault B27: ids, paths and error texts must not become labels.
TEST_CASE("ten thousand sessions make no more lines than a hundred") {
  Metrics metrics;
  for (int i = 0; i < 100; ++i) use_all(metrics, i);
  const long lines = line_count(metrics.text());
  for (int i = 100; i < 10'000; ++i) use_all(metrics, i);
  CHECK(line_count(metrics.text()) == lines);
  CHECK(value_of(metrics.text(), "millrace_env_errors_total{environment=\"other\",kind=\"other\"}") == "10000");
  CHECK(value_of(metrics.text(), "millrace_gate_decisions_total{decision=\"other\",reason=\"other\"}") == "10000");
  CHECK(value_of(metrics.text(), "millrace_actor_restarts_total{actor=\"other\"}") == "10000");
}

TEST_CASE("the gateway's routes keep their names") {
  Metrics metrics;
  metrics.http("/admin/v1/trajectories/*", "GET", 404, 0.2);
  metrics.http("/v1/chat/completions", "BREW", 1000, 0.2);
  const std::string text = metrics.text();
  CHECK(
      value_of(text, "millrace_http_requests_total{code=\"404\",method=\"GET\",route=\"/admin/v1/trajectories/*\"}") ==
      "1");
  CHECK(
      value_of(text, "millrace_http_requests_total{code=\"other\",method=\"other\",route=\"/v1/chat/completions\"}") ==
      "1");
  CHECK(value_of(text, "millrace_http_request_duration_seconds_count{route=\"/admin/v1/trajectories/*\"}") == "1");
}

TEST_CASE("values that are no numbers are printed as Prometheus reads them") {
  Metrics metrics;
  metrics.explained_variance(std::nan(""));
  metrics.value_step(1, std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity());
  const std::string text = metrics.text();
  CHECK(value_of(text, "millrace_explained_variance_ratio") == "NaN");
  CHECK(value_of(text, "millrace_gradient_norm{learner=\"value\"}") == "+Inf");
  CHECK(value_of(text, "millrace_learning_rate{learner=\"value\"}") == "-Inf");
  CHECK(text.find("Nan") == std::string::npos);
}

TEST_CASE("promtool takes the whole page, before and after use, under a locale with decimal commas") {
  struct CommaNumbers : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };
  const std::locale before = std::locale::global(std::locale(std::locale::classic(), new CommaNumbers));
  Metrics metrics;
  const std::string fresh = metrics.text();
  use_all(metrics, 12345);
  metrics.value_step(1, std::nan(""), 0.5);
  const std::string used = metrics.text();
  std::locale::global(before);
  CHECK(value_of(used, "millrace_policy_version") == "12345");
  CHECK(promtool_check(fresh, "promtool check metrics") == 0);
  CHECK(promtool_check(used, "promtool check metrics") == 0);
  CHECK(promtool_check("millrace_x Nan Nan\n", "promtool check metrics 2>/dev/null") != 0);
}

TEST_CASE("process figures are those of this process") {
  const std::string text = Metrics().text();
  const double resident = std::stod(value_of(text, "process_resident_memory_bytes"));
  CHECK(resident > 1e6);
  CHECK(resident == doctest::Approx(static_cast<double>(resident_bytes())).epsilon(0.2));
  CHECK(std::stod(value_of(text, "process_cpu_seconds_total")) > 0);
  CHECK(std::stod(value_of(text, "process_open_fds")) >= 3);
  const double start = std::stod(value_of(text, "process_start_time_seconds"));
  const double now = unix_now();
  CHECK(start <= now + 1);
  CHECK(start > now - 600);

  const std::vector<std::FILE*> files{std::fopen("/dev/null", "r"), std::fopen("/dev/null", "r")};
  CHECK(std::stod(value_of(Metrics().text(), "process_open_fds")) == std::stod(value_of(text, "process_open_fds")) + 2);
  for (std::FILE* file : files) std::fclose(file);
}

TEST_CASE("counts from many threads add up while the page is read") {
  Metrics metrics;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 2000; ++n) {
        metrics.outcome(Outcome::trained, 8);
        metrics.reward(1, 1);
        metrics.http("/livez", "GET", 200, 0.001);
      }
    });
  }
  for (int n = 0; n < 20; ++n) CHECK(metrics.text().size() > 1000);
  threads.clear();
  CHECK(value_of(metrics.text(), "millrace_trajectories_total{outcome=\"trained\"}") == "8000");
  CHECK(value_of(metrics.text(), "millrace_reward_sum") == "8000");
}
