#pragma once
// Time series with bounded labels: every combination of label values is named when the series is made and exists from
// the first scrape on; whatever else is asked for is counted under "other".
#include <algorithm>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <prometheus/family.h>

namespace millrace {

using LabelValues = std::vector<std::string>;  // in the order of the label names

// Every pair of the two: {"a"}, {"x", "y"} -> {a, x}, {a, y}.
inline std::vector<LabelValues> pairs(const LabelValues& first, const LabelValues& second) {
  std::vector<LabelValues> all;
  for (const std::string& a : first) {
    for (const std::string& b : second) all.push_back({a, b});
  }
  return all;
}

template <class Metric>
class Series {
 public:
  // more: what a metric of this kind is made with, the bucket bounds of a histogram.
  template <class... More>
  Series(prometheus::Family<Metric>& family, const std::vector<std::string>& labels,
         const std::vector<LabelValues>& known, const More&... more)
      : other_(labels.size(), "other") {
    for (const LabelValues& values : known) {
      prometheus::Labels named;
      for (std::size_t i = 0; i < labels.size(); ++i) named[labels[i]] = values[i];
      metrics_[values] = &family.Add(named, more...);
    }
  }

  // A series without "other" takes only what it knows; anything else is a bug.
  Metric& at(std::initializer_list<std::string_view> values) const {
    const auto found = metrics_.find(values);
    return found != metrics_.end() ? *found->second : *metrics_.at(other_);
  }

 private:
  // Also compares labels that nobody has made strings of: a trajectory is counted in twenty places.
  struct Less {
    using is_transparent = void;
    template <class A, class B>
    bool operator()(const A& a, const B& b) const {
      return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(),
                                          [](std::string_view x, std::string_view y) { return x < y; });
    }
  };

  LabelValues other_;
  std::map<LabelValues, Metric*, Less> metrics_;
};

}  // namespace millrace
