#include "runtime/durable_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include <xxhash.h>

namespace millrace {

IoStep before_io = nullptr;

namespace {

constexpr std::size_t chunk = std::size_t{16} << 20;  // bytes; between two of them the page cache is given back

tl::unexpected<Error> broken(const char* operation, const std::string& path, int code) {
  return fail(path + ": cannot " + operation + ": " + std::strerror(code));
}

// 0, or the errno a test wants the operation to fail with.
int asked(const char* operation, const std::string& path) { return before_io ? before_io(operation, path) : 0; }

}  // namespace

struct DurableFile::State {
  std::string path;
  int descriptor;
  FileSum sum;
  XXH3_state_t* hash;
  State(std::string its_path, int its_descriptor)
      : path(std::move(its_path)), descriptor(its_descriptor), hash(XXH3_createState()) {
    XXH3_64bits_reset(hash);
  }
  ~State() {
    if (descriptor >= 0) ::close(descriptor);
    XXH3_freeState(hash);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

DurableFile::DurableFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
DurableFile::DurableFile(DurableFile&&) noexcept = default;
DurableFile::~DurableFile() = default;

expected<DurableFile> DurableFile::create(const std::string& path) {
  if (const int code = asked("create", path)) return broken("create", path, code);
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor < 0) return broken("create", path, errno);
  return DurableFile(std::make_unique<State>(path, descriptor));
}

expected<void> DurableFile::write(std::span<const std::byte> bytes) {
  State& s = *state_;
  XXH3_64bits_update(s.hash, bytes.data(), bytes.size());
  while (!bytes.empty()) {
    if (const int code = asked("write", s.path)) return broken("write", s.path, code);
    const ssize_t written = ::write(s.descriptor, bytes.data(), std::min(bytes.size(), chunk));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return broken("write", s.path, errno);
    s.sum.bytes += static_cast<std::uint64_t>(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    if (bytes.size() < chunk) continue;
    // A checkpoint of gigabytes must not push everything else out of the page cache.
    ::fdatasync(s.descriptor);
    ::posix_fadvise(s.descriptor, 0, 0, POSIX_FADV_DONTNEED);
  }
  return {};
}

expected<FileSum> DurableFile::finish() {
  State& s = *state_;
  if (const int code = asked("flush", s.path)) return broken("flush", s.path, code);
  if (::fsync(s.descriptor) != 0) return broken("flush", s.path, errno);
  if (::close(std::exchange(s.descriptor, -1)) != 0) return broken("close", s.path, errno);
  s.sum.xxh3 = XXH3_64bits_digest(s.hash);
  return s.sum;
}

expected<void> flush_folder(const std::string& folder) {
  if (const int code = asked("flush", folder)) return broken("flush", folder, code);
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return broken("flush", folder, errno);
  const int code = ::fsync(descriptor) == 0 ? 0 : errno;
  ::close(descriptor);
  if (code != 0) return broken("flush", folder, code);
  return {};
}

expected<void> rename_durably(const std::string& from, const std::string& to) {
  const std::string folder = std::filesystem::path(to).parent_path();
  if (const int code = asked("rename", to)) return broken("rename", to, code);
  if (::rename(from.c_str(), to.c_str()) != 0) return broken("rename", to, errno);
  return flush_folder(folder.empty() ? "." : folder);
}

expected<void> replace_file(const std::string& path, std::string_view text) {
  const std::string beside = path + ".unfinished";
  auto file = DurableFile::create(beside);
  if (!file) return tl::unexpected(file.error());
  if (auto written = file->write(text); !written) return written;
  if (auto flushed = file->finish(); !flushed) return tl::unexpected(flushed.error());
  return rename_durably(beside, path);
}

expected<void> remove_all(const std::string& path) {
  if (const int code = asked("remove", path)) return broken("remove", path, code);
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error) return fail(path + ": cannot remove: " + error.message());
  return {};
}

std::uint64_t xxh3_of(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

}  // namespace millrace
