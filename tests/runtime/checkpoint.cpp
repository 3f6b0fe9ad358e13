#include "runtime/checkpoint.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>

#include "runtime/ledger.hpp"
#include "tests/temporary_directory.hpp"

using namespace millrace;

namespace {

// Numbers of one learner, all of them `mark`.
struct Numbers {
  std::vector<float> weights;
  std::int64_t steps;
  explicit Numbers(float mark) : weights(6, mark), steps(static_cast<std::int64_t>(mark)) {}
  TensorViews views() const {
    return {{"layer.weight", "F32", {2, 3}, std::as_bytes(std::span(weights))},
            {"optimizer.steps", "I64", {1}, std::as_bytes(std::span(&steps, 1))},
            {"empty", "F64", {0}, {}}};
  }
};

// Writes the checkpoint of a step and names it in the ledger, as the service does; keeps one.
expected<void> make(const std::string& folder, Ledger& ledger, std::uint64_t step) {
  const CheckpointStore store(folder);
  const Numbers numbers(static_cast<float>(step));
  CheckpointRow row{"step" + std::to_string(step), step, step, 0, 1.0};
  const auto sum = store.write(row.name, {{"step", step}}, numbers.views(), numbers.views());
  if (!sum) return tl::unexpected(sum.error());
  row.checksum = *sum;
  return ledger.name_checkpoint(row, 1).and_then([&] { return store.keep_only({row.name}); });
}

// The step of the newest checkpoint, all parts of which must be of it.
std::uint64_t newest(const std::string& folder) {
  auto ledger = Ledger::open(folder);
  REQUIRE_MESSAGE(ledger, ledger.error().message);
  const auto rows = ledger->checkpoints();
  REQUIRE(rows.size() == 1);
  const auto stored = CheckpointStore(folder).read(rows[0]);
  REQUIRE_MESSAGE(stored, stored.error().message);
  const StoredCheckpoint& checkpoint = **stored;
  const std::uint64_t step = checkpoint.manifest.at("step");
  CHECK(checkpoint.row.step == step);
  for (const TensorFile* file : {&checkpoint.policy, &checkpoint.value}) {
    REQUIRE(file->tensors().size() == 3);
    for (const TensorView& view : file->tensors()) {
      if (view.name != "layer.weight") continue;
      float mark = 0;
      std::memcpy(&mark, view.bytes.data(), sizeof mark);
      CHECK(mark == static_cast<float>(step));
    }
  }
  return step;
}

int operations = 0;  // so far
int last = -1;       // the one that does not happen any more
int with = 0;        // the errno it fails with; 0 = the process is killed before it

int fault(const char*, const std::string&) {
  if (operations++ != last) return 0;
  if (with == 0) ::kill(::getpid(), SIGKILL);
  return with;
}

struct Faults {
  Faults(int at, int code) {
    operations = 0;
    last = at;
    with = code;
    before_io = fault;
  }
  ~Faults() { before_io = nullptr; }
};

}  // namespace

TEST_CASE("a checkpoint comes back bit for bit") {
  const TemporaryDirectory folder;
  {
    auto ledger = Ledger::open(folder.path());
    REQUIRE(make(folder.path(), *ledger, 7));
  }
  CHECK(newest(folder.path()) == 7);
}

TEST_CASE("killed at any write, flush, rename or removal: the old checkpoint or the whole new one (B24)") {
  int points = 0;
  bool through = false;
  for (int at = 0; !through; ++at) {
    const TemporaryDirectory folder;
    const pid_t child = ::fork();
    if (child == 0) {
      auto ledger = Ledger::open(folder.path());
      if (!ledger || !make(folder.path(), *ledger, 10)) ::_exit(1);
      const Faults faults(at, 0);
      ::_exit(make(folder.path(), *ledger, 20) ? 0 : 2);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    CAPTURE(at);
    through = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    REQUIRE((through || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)));
    const std::uint64_t step = newest(folder.path());
    CHECK((step == 10 || step == 20));
    if (through) CHECK(step == 20);

    // The next service cleans up and writes the same checkpoint again.
    auto ledger = Ledger::open(folder.path());
    REQUIRE(CheckpointStore(folder.path()).keep_only({ledger->checkpoints()[0].name}));
    REQUIRE(make(folder.path(), *ledger, 20));
    ++points;
  }
  CHECK(points > 10);
}

TEST_CASE("a disk that is full at any point: an error, the old checkpoint stays, the next one works (B24)") {
  int failures = 0;
  for (int at = 0;; ++at) {
    const TemporaryDirectory folder;
    auto ledger = Ledger::open(folder.path());
    REQUIRE(make(folder.path(), *ledger, 10));
    expected<void> made;
    {
      const Faults faults(at, ENOSPC);
      made = make(folder.path(), *ledger, 20);
    }
    if (made) break;
    ++failures;
    CAPTURE(at);
    CHECK(made.error().message.find("No space left") != std::string::npos);
    CHECK(make(folder.path(), *ledger, 30));
    ledger = fail("closed");
    CHECK(newest(folder.path()) == 30);
    CHECK(std::distance(std::filesystem::directory_iterator(folder.path() + "/checkpoints"), {}) == 1);
  }
  CHECK(failures > 8);
}

TEST_CASE("a checkpoint that lost or changed a byte is not taken (B24)") {
  const TemporaryDirectory folder;
  auto ledger = Ledger::open(folder.path());
  REQUIRE(make(folder.path(), *ledger, 10));
  const CheckpointRow row = ledger->checkpoints()[0];
  const CheckpointStore store(folder.path());
  for (const char* name : {"policy.safetensors", "value.safetensors", "manifest.json"}) {
    const std::string path = folder.path() + "/checkpoints/step10/" + name;
    std::ifstream stream(path, std::ios::binary);
    const std::string whole{std::istreambuf_iterator<char>(stream), {}};
    const auto put = [&](const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; };
    CAPTURE(name);
    put(whole.substr(0, whole.size() - 1));
    CHECK_FALSE(store.read(row));
    std::string changed = whole;
    changed[whole.size() / 2] = static_cast<char>(changed[whole.size() / 2] ^ 1);
    put(changed);
    CHECK_FALSE(store.read(row));
    std::filesystem::remove(path);
    CHECK_FALSE(store.read(row));
    put(whole);
    CHECK(store.read(row));
  }
}

TEST_CASE("a checkpoint of a newer format is refused with a clear line") {
  const TemporaryDirectory folder;
  auto ledger = Ledger::open(folder.path());
  REQUIRE(make(folder.path(), *ledger, 10));
  CheckpointRow row = ledger->checkpoints()[0];
  const std::string path = folder.path() + "/checkpoints/step10/manifest.json";
  auto manifest = nlohmann::json::parse(std::ifstream(path));
  manifest["format"] = 2;
  const std::string text = manifest.dump();
  std::ofstream(path) << text;
  row.checksum = xxh3_of(std::as_bytes(std::span(text)));
  const auto stored = CheckpointStore(folder.path()).read(row);
  REQUIRE_FALSE(stored);
  CHECK(stored.error().message.find("checkpoint of format 2, this program knows 1") != std::string::npos);
}
