#include "runtime/environments/shell.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include "runtime/base64.hpp"
#include "runtime/sandbox.hpp"

namespace millrace {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view opening = "<sh>";
constexpr std::string_view closing = "</sh>";
constexpr const char* system_message =
    "You work on a Linux computer. Write one shell command as <sh>ls -l</sh> and stop, and you are shown its output. "
    "When the task is done, say so without a command.";

struct ShellTask {
  std::string prompt;
  std::string check;
  std::string unpack;  // a command that writes the task's files
};

std::string read_file(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) c == '\'' ? result += "'\\''" : result += c;
  return result + "'";
}

expected<ShellTask> read_task(const fs::path& folder) {
  ShellTask task{read_file(folder / "prompt.txt"), read_file(folder / "check"), ""};
  if (task.prompt.empty() || task.check.empty()) {
    return fail("\"environment.data\": " + folder.string() + ": expected prompt.txt and check");
  }
  std::error_code none;
  for (const auto& entry : fs::recursive_directory_iterator(folder / "files", none)) {
    if (!entry.is_regular_file()) continue;
    const std::string name = fs::relative(entry.path(), folder / "files").string();
    const std::string parent = fs::path(name).parent_path().string();
    if (!parent.empty()) task.unpack += "mkdir -p " + quoted(parent) + "\n";
    task.unpack += "echo " + to_base64(read_file(entry.path())) + " | base64 -d > " + quoted(name) + "\n";
  }
  return task;
}

class Shell : public Environment {
 public:
  Shell(std::shared_ptr<const std::vector<ShellTask>> tasks, SandboxLimits limits)
      : tasks_(std::move(tasks)), limits_(limits) {}

  expected<Task> reset(std::uint64_t episode) override {
    task_ = &(*tasks_)[episode % tasks_->size()];
    auto sandbox = Sandbox::start(limits_);
    if (!sandbox) return tl::unexpected(sandbox.error());
    sandbox_.emplace(std::move(*sandbox));
    if (!task_->unpack.empty()) {
      const auto unpacked = sandbox_->run(task_->unpack);
      if (!unpacked || unpacked->exit_code != 0) return fail("shell: the task's files do not fit into the sandbox");
    }
    return Task{.prompt = {{"system", system_message}, {"user", task_->prompt}}, .text = task_->prompt, .expected = ""};
  }

  expected<Observation> step(const std::string& action) override {
    const std::size_t begin = action.find(opening);
    if (begin == std::string::npos) return judge();
    const std::size_t end = action.find(closing, begin);
    if (end == std::string::npos) return observed("malformed command: <sh> without </sh>");
    const std::size_t from = begin + opening.size();
    const auto result = sandbox_->run(action.substr(from, end - from));
    if (!result) return tl::unexpected(result.error());
    std::string text = result->output;
    if (result->exit_code == 124) text += "[it took too long and was ended]";
    if (result->exit_code != 0 && result->exit_code != 124)
      text += "[exit code " + std::to_string(result->exit_code) + "]";
    return observed(text.empty() ? "[no output]" : text);
  }

 private:
  static Observation observed(std::string text) {
    return {.over = false, .truncated = false, .message = {"tool", std::move(text)}, .reward = 0};
  }

  expected<Observation> judge() {
    const auto result = sandbox_->run(task_->check);
    if (!result) return tl::unexpected(result.error());
    return Observation{.over = true, .truncated = false, .message = {}, .reward = result->exit_code == 0 ? 1.0 : 0.0};
  }

  std::shared_ptr<const std::vector<ShellTask>> tasks_;
  SandboxLimits limits_;
  const ShellTask* task_ = nullptr;
  std::optional<Sandbox> sandbox_;
};

}  // namespace

expected<EnvironmentFactory> make_shell(const EnvironmentSettings& settings) {
  const std::string folder = settings.data.empty() ? "config/tasks/shell" : settings.data;
  std::vector<fs::path> folders;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    if (entry.is_directory()) folders.push_back(entry.path());
  }
  if (folders.empty())
    return fail("\"environment.data\": " + folder + ": expected a folder with a folder for every task");
  std::sort(folders.begin(), folders.end());
  auto tasks = std::make_shared<std::vector<ShellTask>>();
  for (const fs::path& path : folders) {
    auto task = read_task(path);
    if (!task) return tl::unexpected(task.error());
    tasks->push_back(std::move(*task));
  }
  SandboxLimits limits;
  limits.command_s = settings.step_timeout_s;
  return [tasks, limits] { return std::make_unique<Shell>(tasks, limits); };
}

}  // namespace millrace
