#include "models/decoder.hpp"

#include <cmath>

#include "tests/models/decoder_fixture.hpp"
#include "tests/text/smollm2.hpp"

namespace millrace {
namespace {

using testing::alone, testing::distance_to_learner, testing::joined, testing::run, testing::Turns;

// Eight prompts of unlike lengths; the first three begin alike.
std::vector<Tokens> prompts() {
  std::vector<Tokens> all;
  for (int i = 0; i < 8; ++i) {
    Tokens prompt;
    for (int t = 0; t < 5 + 7 * i; ++t)
      prompt.push_back(static_cast<TokenId>((i < 3 && t < 20 ? 0 : 31 * i) + t * t) % 256);
    all.push_back(prompt);
  }
  return all;
}

Sampling sampling_of(std::size_t turn, int max_tokens = 20) {
  const std::array temperatures = {1.0, 0.5, 0.6, 1.3};
  return {.temperature = temperatures[turn % 4], .max_tokens = max_tokens, .seed = turn};
}

TEST_CASE("SmolLM2 continues greedily as in transformers, all prompts in one batch") {
  const Model model = {
      .weights = load_model({.path = smollm2_path, .random = {}}, 0).value().weights,
      .tokenizer = std::shared_ptr<const Tokenizer>(std::shared_ptr<void>(), &smollm2()),
      .name = "smollm2",
  };
  // The reference took <|im_end|> in a prompt for padding and hid it: of its continuations only the last one counts,
  // whose prompt has none. The other prompts are compared with the learner's forward pass.
  const auto& greedy = golden().at("greedy");
  Decoder decoder(model, {});
  for (std::size_t i = 0; i < greedy.size(); ++i) {
    REQUIRE(decoder.start(i, greedy[i].at("ids"), {.temperature = 0, .max_tokens = 24}));
  }
  // A stop text of two tokens, "a vast": both are kept (B03).
  REQUIRE(decoder.start(100, greedy[0].at("ids"), {.temperature = 0, .max_tokens = 24, .stop = {"zebra", "a vast"}}));
  const Turns turns = run(decoder);

  CHECK(turns.at(2).tokens == greedy[2].at("next").get<Tokens>());
  for (std::size_t i = 0; i < greedy.size(); ++i) {
    const Tokens prompt = greedy[i].at("ids");
    CHECK(turns.at(i).tokens.front() == golden().at("logprobs")[i].at("top5")[0][0].get<TokenId>());
    CHECK(turns.at(i).logp.front() ==
          doctest::Approx(golden().at("logprobs")[i].at("top5")[0][1].get<double>()).epsilon(1e-3));
    CHECK(distance_to_learner(model, prompt, turns.at(i), 1.0) < 1e-4);
    const at::Tensor best = testing::learner_logits(*model.weights, joined(prompt, turns.at(i).tokens)).argmax(1);
    for (std::size_t t = 0; t < turns.at(i).tokens.size(); ++t) {
      CHECK(turns.at(i).tokens[t] == best[static_cast<std::int64_t>(prompt.size() + t) - 1].item<std::int64_t>());
    }
  }
  CHECK(turns.at(100).finish == Finish::stop);
  CHECK(smollm2().decode(turns.at(100).tokens) == "The sea is a vast");
  CHECK(turns.at(100).logp.size() == turns.at(100).tokens.size());
}

TEST_CASE("B01 and B02: log-probs are the learner's, alone and in a batch, at every temperature") {
  const Model model = testing::small_model();
  const std::vector<Tokens> all = prompts();
  Decoder decoder(model, {});
  for (std::size_t i = 0; i < all.size(); ++i) REQUIRE(decoder.start(i, all[i], sampling_of(i)));
  const Turns turns = run(decoder);
  for (std::size_t i = 0; i < all.size(); ++i) {
    CAPTURE(i);
    const FinishedTurn single = alone(model, all[i], sampling_of(i));
    CHECK(turns.at(i).tokens == single.tokens);
    CHECK(testing::distance(turns.at(i).logp, single.logp) < 1e-4);
    CHECK(distance_to_learner(model, all[i], turns.at(i), sampling_of(i).temperature) < 1e-4);
  }
}

TEST_CASE("batch-invariant: tokens and log-probs are the same bits, alone or among others that come and go") {
  const Model model = testing::small_model();
  const std::vector<Tokens> all = prompts();
  const DecoderSettings invariant{.batch_invariant = true};
  Turns alone;
  for (std::size_t i = 0; i < all.size(); ++i) {
    Decoder decoder(model, invariant);
    REQUIRE(decoder.start(i, all[i], sampling_of(i)));
    alone.merge(run(decoder));
  }
  for (const int steps_between : {0, 1, 3, 7}) {
    Decoder decoder(model, invariant);
    Turns turns;
    for (std::size_t k = 0; k < all.size(); ++k) {
      const std::size_t i = steps_between % 2 == 0 ? k : all.size() - 1 - k;
      REQUIRE(decoder.start(i, all[i], sampling_of(i)));
      REQUIRE(decoder.start(100 + i, all[i], sampling_of(i, 2 + static_cast<int>(i))));
      turns.merge(run(decoder, steps_between));
    }
    turns.merge(run(decoder));
    for (const auto& [i, turn] : alone) {
      CAPTURE(i);
      CHECK(turns.at(i).tokens == turn.tokens);
      CHECK(turns.at(i).logp == turn.logp);
    }
  }
}

TEST_CASE("turns that come and go do not disturb the others") {
  const Model model = testing::small_model();
  const std::vector<Tokens> all = prompts();
  Decoder decoder(model, {});
  Turns turns;
  for (std::size_t i = 0; i < all.size(); ++i) {
    REQUIRE(decoder.start(i, all[i], sampling_of(i, 5 + static_cast<int>(i * 5 % 17))));
    if (i == 5) decoder.cancel(3);
    turns.merge(run(decoder, 3));
  }
  decoder.cancel(12345);  // unknown
  turns.merge(run(decoder));
  CHECK(turns.size() == 7);
  CHECK_FALSE(turns.contains(3));
  CHECK(decoder.live() == 0);
  for (const auto& [i, turn] : turns) {
    CAPTURE(i);
    CHECK(turn.tokens == alone(model, all[i], sampling_of(i, 5 + static_cast<int>(i * 5 % 17))).tokens);
  }
}

TEST_CASE("steps for urgent turns alone hold the others, and change nobody's tokens") {
  const Model model = testing::small_model();
  const std::vector<Tokens> all = prompts();
  const auto is_urgent = [](std::size_t i) { return i % 3 == 1; };
  Decoder decoder(model, {});
  Turns turns;
  for (std::size_t i = 0; i < all.size(); ++i) {
    REQUIRE(decoder.start(i, all[i], sampling_of(i, 5 + static_cast<int>(i * 5 % 17)), is_urgent(i)));
    if (i == 4) decoder.cancel(4);  // an urgent one leaves from among the others
    turns.merge(run(decoder, 1));
    const std::size_t before = decoder.sampled_since(0, 0).tokens.size();
    for (FinishedTurn& turn : decoder.step(true)) turns.emplace(turn.id, std::move(turn));
    if (decoder.sampled_since(0, 0).tokens.size() > 0) CHECK(decoder.sampled_since(0, 0).tokens.size() == before);
  }
  while (decoder.urgent() > 0) {
    for (FinishedTurn& turn : decoder.step(true)) turns.emplace(turn.id, std::move(turn));
  }
  CHECK(decoder.step(true).empty());
  for (std::size_t i = 0; i < all.size(); ++i) CHECK((turns.contains(i) || !is_urgent(i) || i == 4));
  turns.merge(run(decoder));
  CHECK(turns.size() == all.size() - 1);
  for (const auto& [i, turn] : turns) {
    CAPTURE(i);
    CHECK(turn.tokens == alone(model, all[i], sampling_of(i, 5 + static_cast<int>(i * 5 % 17))).tokens);
  }
}

TEST_CASE("more turns than may step at once wait in order, urgent ones in front, and change nobody's tokens") {
  const Model model = testing::small_model();
  const std::vector<Tokens> all = prompts();
  Decoder decoder(model, {.parallel = 3});
  for (std::size_t i = 0; i < 6; ++i) REQUIRE(decoder.start(i, all[i], sampling_of(i, 10)));
  Turns turns = run(decoder, 4);
  for (TurnId id = 0; id < 6; ++id) CHECK(decoder.sampled_since(id, 0).tokens.size() == (id < 3 ? 4 : 0));
  REQUIRE(decoder.start(6, all[6], sampling_of(6, 10), true));
  turns.merge(run(decoder, 3));
  CHECK(decoder.sampled_since(6, 0).tokens.size() == 3);
  CHECK(decoder.sampled_since(2, 0).tokens.size() == 4);  // it stands still for the urgent one
  CHECK(decoder.live() == 7);
  turns.merge(run(decoder));
  CHECK(turns.size() == 7);
  for (const auto& [i, turn] : turns) {
    CAPTURE(i);
    CHECK(turn.tokens == alone(model, all[i], sampling_of(i, 10)).tokens);
  }
}

TEST_CASE("many prompts that begin alike are computed once and shared") {
  const Model model = testing::small_model();
  Decoder decoder(model, {});
  // In common are 64 tokens, two full pages of the cache, or 70, with a page in which each goes on by itself.
  const auto prompt_of = [](TokenId last) {
    Tokens prompt(last % 2 == 0 ? 70 : 64, 65);
    prompt.push_back(last);
    prompt.push_back(last);
    return prompt;
  };
  for (TokenId id = 0; id < 20; ++id) {
    REQUIRE(decoder.start(static_cast<TurnId>(id), prompt_of(id), sampling_of(static_cast<std::size_t>(id), 3)));
  }
  for (const auto& [id, turn] : run(decoder)) {
    CHECK(distance_to_learner(model, prompt_of(static_cast<TokenId>(id)), turn, sampling_of(id).temperature) < 1e-4);
  }
}

TEST_CASE("a prompt longer than one chunk is fed over several steps while others go on") {
  const Model model = testing::small_model();
  Tokens prompt(1300);
  for (std::size_t t = 0; t < prompt.size(); ++t) prompt[t] = static_cast<TokenId>(t * t % 251);
  Decoder decoder(model, {});
  REQUIRE(decoder.start(1, {65, 66}, {.max_tokens = 30}));
  decoder.step();
  REQUIRE(decoder.start(2, prompt, {.max_tokens = 4}));
  CHECK(decoder.prompt_tokens() == 2);
  std::uint64_t before = decoder.prompt_tokens();
  while (decoder.prompt_tokens() < 1302) {
    const std::uint64_t generated = decoder.generated_tokens();
    decoder.step();
    CHECK(decoder.prompt_tokens() - before <= 520);
    CHECK(decoder.generated_tokens() > generated);
    before = decoder.prompt_tokens();
  }
  const Turns turns = run(decoder);
  CHECK(decoder.prompt_tokens() == 1302);
  CHECK(decoder.generated_tokens() == 34);
  CHECK(turns.at(1).tokens.size() == 30);
  CHECK(distance_to_learner(model, prompt, turns.at(2), 1.0) < 1e-4);
}

TEST_CASE("B03: lists keep step; the end-of-turn token is kept and never added") {
  const Model model = testing::small_model();
  const TokenId eos = model.tokenizer->eos();
  Decoder decoder(model, {});
  for (std::size_t i = 0; i < 64; ++i) REQUIRE(decoder.start(i, {65, 66}, {.max_tokens = 100, .seed = i}));
  std::size_t stopped = 0;
  for (const auto& [id, turn] : run(decoder)) {
    CHECK(turn.logp.size() == turn.tokens.size());
    CHECK(turn.versions.size() == turn.tokens.size());
    const auto ends = std::count(turn.tokens.begin(), turn.tokens.end(), eos);
    if (turn.finish == Finish::stop) {
      ++stopped;
      CHECK(turn.tokens.back() == eos);
      CHECK(ends == 1);
    } else {
      CHECK(turn.tokens.size() == 100);
      CHECK(ends == 0);
    }
  }
  CHECK(stopped > 5);
  CHECK(stopped < 60);
}

TEST_CASE("top_k and top_p report the log-prob in the distribution the token was drawn from") {
  const Model model = testing::small_model();
  const FinishedTurn turn = alone(model, {65, 66}, {.top_k = 3, .max_tokens = 40});
  const Tokens tokens = joined({65, 66}, turn.tokens);
  const at::Tensor best = std::get<0>(testing::learner_logits(*model.weights, tokens).topk(3, 1));
  for (std::size_t t = 0; t < turn.tokens.size(); ++t) {
    const auto row = static_cast<std::int64_t>(t) + 1;
    const at::Tensor three = best[row].log_softmax(0);
    CHECK((three - turn.logp[t]).abs().min().item<float>() < 1e-4f);
  }
}

TEST_CASE("B09: prompts of every length in a context of 64") {
  const Model model = testing::small_model();
  const auto tokens_of = [&](std::size_t prompt) { return Tokens(prompt, 65); };
  // No end-of-turn token is drawn with these seeds: the room alone decides.
  for (const auto& [prompt, room] : std::map<std::size_t, std::size_t>{{1, 16}, {48, 16}, {63, 1}}) {
    CAPTURE(prompt);
    const FinishedTurn turn = alone(model, tokens_of(prompt), {.temperature = 0, .max_tokens = 16}, 64);
    CHECK(turn.tokens.size() == room);
    CHECK(turn.finish == Finish::length);
  }
  Decoder decoder(model, {.max_context = 64});
  const auto refusal = [&](const Tokens& prompt, const Sampling& sampling) {
    const expected<void> started = decoder.start(1, prompt, sampling);
    return started ? "" : started.error().message;
  };
  CHECK(refusal(tokens_of(64), {}).starts_with("prompt_too_long: "));
  CHECK(refusal(tokens_of(65), {}).starts_with("prompt_too_long: "));
  CHECK(refusal({}, {}) == "the prompt is empty");
  CHECK(refusal({65, 9999}, {}) != "");
  CHECK(refusal({65, -1}, {}) != "");
  CHECK(refusal({65}, {.temperature = -1}) != "");
  CHECK(refusal({65}, {.temperature = NAN}) != "");
  CHECK(refusal({65}, {.temperature = 1e-30}) != "");
  CHECK(refusal({65}, {.top_p = 0}) != "");
  CHECK(refusal({65}, {.max_tokens = 0}) != "");
  CHECK(decoder.live() == 0);
  CHECK(refusal({65}, {}) == "");
  CHECK(refusal({65}, {}) != "");  // the id is in use
  CHECK(decoder.live() == 1);
}

TEST_CASE("counters count every token once") {
  const Model model = testing::small_model();
  Decoder decoder(model, {});
  for (TurnId id = 0; id < 4; ++id) {
    REQUIRE(decoder.start(id, Tokens(40, 65), {.temperature = 0, .max_tokens = 5}));
  }
  CHECK(decoder.live() == 4);
  run(decoder);
  CHECK(decoder.prompt_tokens() == 160);
  CHECK(decoder.generated_tokens() == 20);
}

}  // namespace
}  // namespace millrace
