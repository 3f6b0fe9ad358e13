#pragma once
// A directory that is gone when the test is over; in memory where that is possible, since ledgers sync every commit.
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>

namespace millrace {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    static std::atomic<int> next{0};
    const auto root = std::filesystem::exists("/dev/shm") ? std::filesystem::path("/dev/shm")
                                                          : std::filesystem::temp_directory_path();
    path_ = root / ("millrace-test-" + std::to_string(::getpid()) + "-" + std::to_string(next++));
    std::filesystem::create_directories(path_);
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace millrace
