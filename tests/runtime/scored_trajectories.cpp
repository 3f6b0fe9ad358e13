#include "runtime/scored_trajectories.hpp"

#include <fstream>

#include <doctest/doctest.h>

#include "tests/temporary_directory.hpp"

using namespace millrace;

namespace {

const Tokenizer tokenizer = Tokenizer::bytes();

struct File {
  TemporaryDirectory directory;
  std::string path = directory.path() + "/data.jsonl";
  explicit File(const std::string& text) { std::ofstream(path) << text; }
};

std::string error_of(const std::string& line) {
  const File file("{\"tokens\": [65, 66], \"mask\": [0, 1], \"reward\": 1}\n" + line + "\n");
  auto data = ScoredTrajectories::open(file.path, tokenizer);
  REQUIRE(data);
  REQUIRE(data->next());
  const auto second = data->next();
  return second ? "no error" : second.error().message.substr(file.path.size());
}

}  // namespace

TEST_CASE("lines of tokens and lines of text, one after another") {
  const File file(R"({"tokens": [65, 66, 67], "mask": [0, 1, 1], "reward": 0.5}
{"tokens": [65, 66, 67], "mask": [0, 1, 1], "rewards": [0, 0.25, 1]}
{"messages": [{"role": "user", "content": "hi"}], "answer": "oh", "reward": 2}
)");
  auto data = ScoredTrajectories::open(file.path, tokenizer);
  REQUIRE(data);
  CHECK(data->total() == 3);
  const auto first = data->next(), second = data->next(), third = data->next();
  REQUIRE((first && second && third));
  CHECK((*first)->rewards == std::vector<float>{0, 0, 0.5f});
  CHECK((*second)->rewards == std::vector<float>{0, 0.25f, 1});
  const Sequence& text = **third;
  CHECK(text.rewards.back() == 2);
  CHECK(text.tokens.back() == tokenizer.eos());
  CHECK(text.mask == [&] {
    std::vector<std::uint8_t> mask(text.tokens.size(), 0);
    std::fill(mask.end() - 3, mask.end(), std::uint8_t{1});  // "oh" and the end of the turn
    return mask;
  }());
  const auto end = data->next();
  REQUIRE(end);
  CHECK_FALSE(end->has_value());
  CHECK(data->read() == 3);
}

TEST_CASE("a bad line is an error that names it") {
  CHECK(error_of("no json").find(":2: expected {\"tokens\"") == 0);
  CHECK(error_of("{}").find(":2: expected {\"tokens\"") == 0);
  CHECK(error_of(R"({"tokens": [65, 9999], "mask": [0, 1], "reward": 1})").find(":2: \"tokens\": 9999 is not") == 0);
  CHECK(error_of(R"({"tokens": [65, 66], "mask": [0], "reward": 1})").find(":2: \"mask\"") == 0);
  CHECK(error_of(R"({"tokens": [65, 66], "mask": [0, 1]})").find(":2: \"reward\"") == 0);
  CHECK(error_of(R"({"tokens": [65, 66], "mask": [0, 1], "rewards": [1]})").find(":2: \"rewards\"") == 0);
  CHECK(error_of(R"({"tokens": [65], "mask": [1], "reward": 1})").find(":2: expected at least one token") == 0);
  CHECK(error_of(R"({"messages": [{"role": 1}], "answer": "a", "reward": 1})").find(":2: \"messages\"") == 0);
  CHECK_FALSE(ScoredTrajectories::open("/nowhere/x.jsonl", tokenizer));
  CHECK_FALSE(ScoredTrajectories::open("/nowhere", tokenizer));
}
