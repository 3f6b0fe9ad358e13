#include "runtime/live/redaction.hpp"

#include <fstream>

#include <doctest/doctest.h>

#include "tests/temporary_directory.hpp"

using namespace millrace;

namespace {

expected<Redaction> rules(const std::string& text) {
  const TemporaryDirectory directory;
  const std::string file = directory.path() + "/rules";
  std::ofstream(file) << text;
  return Redaction::read(file);
}

std::string blacked(const Redaction& redaction, std::string text) {
  redaction.apply(text);
  return text;
}

Interaction answer() {
  Interaction made;
  made.prompt = {1, 2};
  made.sampled = {{3, 4}, {-1, -1}, {5, 5}};
  made.dialogue = "key";
  made.task = "My mail is ada@example.org";
  made.answer = "Thank you.";
  return made;
}

}  // namespace

TEST_CASE("matches are blacked out, in any script, however many") {
  const auto redaction = rules("# mail\n[\\w.]+@[\\w.]+\n\n\\b\\d{4}( \\d{4}){3}\\b\nm(ü|ö)ller\n");
  REQUIRE_MESSAGE(redaction, redaction.error().message);
  CHECK(blacked(*redaction, "ada@example.org, b@c") == "[redacted], [redacted]");
  CHECK(blacked(*redaction, "card 1234 5678 1234 5678 of müller") == "card [redacted] of [redacted]");
  CHECK(blacked(*redaction, "nothing of the kind") == "nothing of the kind");
  CHECK(blacked(*redaction, "\xff a@b \xff").find("a@b") == std::string::npos);
  CHECK(blacked(*rules("."), "abc") == "[redacted][redacted][redacted]");
  CHECK(blacked(*Redaction::read(""), "ada@example.org") == "ada@example.org");
}

TEST_CASE("a rule that does not get through blacks out everything") {
  const auto redaction = rules("(a+)+$");
  REQUIRE(redaction);
  std::string endless(50000, 'a');
  endless += 'b';
  CHECK(blacked(*redaction, endless) == "[redacted]");
}

TEST_CASE("what is wrong with a file of rules is said with its line") {
  CHECK(rules("a\n(b\n").error().message.find(":2: the pattern is wrong") != std::string::npos);
  CHECK(Redaction::read("/no/such/file").error().message.find("live.redact_file") == 0);
}

TEST_CASE("an answer that matches anywhere in its conversation keeps nothing to learn from") {
  const Redaction redaction = *rules("[\\w.]+@[\\w.]+");
  Interaction kept = answer();
  redaction.apply(kept, {{"user", "My mail is ada@example.org"}});
  CHECK(kept.redacted);
  CHECK(kept.task == "My mail is [redacted]");
  CHECK(kept.answer == "Thank you.");
  CHECK(kept.prompt.empty());
  CHECK(kept.sampled.tokens.empty());
  CHECK(kept.dialogue.empty());
  CHECK(interaction_of(to_json(kept))->redacted);
  const Trajectory trajectory = make_trajectory({{kept, 1.0}}, 10);
  CHECK(trajectory.invalid == "redacted");
  CHECK(trajectory.score.total == 1);

  Interaction earlier = answer();
  earlier.task = "Hello again";
  redaction.apply(earlier, {{"user", "ada@example.org"}, {"assistant", "Hi"}, {"user", "Hello again"}});
  CHECK(earlier.redacted);
  Interaction other = answer();
  other.task = "Hello";
  redaction.apply(other, {{"user", "Hello"}});
  CHECK_FALSE(other.redacted);
  CHECK(other.prompt.size() == 2);
}
