#include "runtime/dry_run.hpp"

#include <doctest/doctest.h>

using namespace millrace;

namespace {

RewardSpec share_of(const std::string& letters) {
  return *RewardSpec::parse(
      {{"name", "s"}, {"parts", {{{"name", "p"}, {"kind", "letter_share"}, {"weight", 1}, {"letters", letters}}}}});
}

nlohmann::json try_out(const RewardSpec& spec, const std::vector<PastAnswer>& answers, std::size_t shown = 8) {
  std::vector<expected<Score>> scores;
  for (const PastAnswer& answer : answers) scores.emplace_back(spec.score(answer.answer, answer.expected_answer));
  return dry_run(spec.name(), answers, scores, shown);
}

}  // namespace

TEST_CASE("ranks, their agreement, and what moves most") {
  // Shares of b: 0, 0.5, 1; they were rewarded for a.
  const auto result =
      try_out(share_of("b"), {{1, "aa", "", "", 1.0}, {2, "ab", "", "", 0.5}, {3, "bb", "", "", 0.0}}, 2);
  CHECK(result["compared"] == 3);
  CHECK(result["mean_before"] == doctest::Approx(0.5));
  CHECK(result["mean_after"] == doctest::Approx(0.5));
  CHECK(result["rank_correlation"] == doctest::Approx(-1));
  REQUIRE(result["examples"].size() == 2);
  CHECK(result["examples"][0]["id"] == 1);
  CHECK(result["examples"][0]["rank_before"] == 1);
  CHECK(result["examples"][0]["rank_after"] == 3);
  CHECK(result["examples"][1]["id"] == 3);
  CHECK(result["warnings"].empty());
}

TEST_CASE("equal rewards share the mean of their ranks") {
  const auto result =
      try_out(share_of("b"), {{1, "b", "", "", 2}, {2, "b", "", "", 2}, {3, "ab", "", "", 1}, {4, "a", "", "", 0}});
  CHECK(result["rank_correlation"] == doctest::Approx(1));
  CHECK(result["same_reward_share"] == doctest::Approx(0.5));
  for (const auto& example : result["examples"]) {
    if (example["id"] == 1) CHECK(example["rank_after"] == doctest::Approx(1.5));
  }
}

TEST_CASE("a spec that tells nothing apart is warned of") {
  std::vector<PastAnswer> answers;
  for (TrajectoryId id = 1; id <= 20; ++id) answers.push_back({id, "aaa", "", "", static_cast<double>(id)});
  const auto result = try_out(share_of("z"), answers);
  CHECK(result["rank_correlation"].is_null());
  CHECK(result["same_reward_share"] == doctest::Approx(1));
  CHECK(result["warnings"].size() == 1);
  CHECK(try_out(share_of("z"), {})["warnings"].size() == 1);
}

TEST_CASE("answers without a score are left out, and said to be") {
  const std::vector<PastAnswer> answers = {{1, "a", "", "", 1.0}, {2, "b", "", "", 0.0}, {3, "c", "", "", 0.5}};
  const auto result = dry_run("s", answers, {Score{0.5, {}, "s", 0}, fail("nobody answers"), Score{0.25, {}, "s", 0}});
  CHECK(result["compared"] == 2);
  CHECK(result["mean_before"] == doctest::Approx(0.75));
  CHECK(result["warnings"][0] == "1 of 3 answers got no score: nobody answers");
  const auto none = dry_run("s", {answers[0]}, {fail("nobody answers")});
  CHECK(none["compared"] == 0);
  CHECK(none["warnings"].size() == 1);
}
