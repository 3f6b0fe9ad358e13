#include "models/text/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace millrace {

expected<MappedFile> MappedFile::open(const std::string& path) {
  const auto refuse = [&](int code) { return fail(path + ": " + std::generic_category().message(code)); };
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return refuse(errno);
  struct stat status {};
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size == 0) {
    close(file);
    return fail(path + ": a file with something in it is expected, this is empty or no regular file");
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  void* start = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  const int code = errno;
  close(file);
  if (start == MAP_FAILED) return refuse(code);
  return MappedFile(start, size);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : start_(std::exchange(other.start_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile::~MappedFile() {
  if (start_) munmap(start_, size_);
}

void MappedFile::forget(std::span<const std::byte> part) const {
  static const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const auto offset = static_cast<std::size_t>(part.data() - bytes().data());
  const std::size_t begin = offset / page * page, end = (offset + part.size() + page - 1) / page * page;
  madvise(static_cast<std::byte*>(start_) + begin, end - begin, MADV_DONTNEED);  // only advice: it may fail
}

}  // namespace millrace
