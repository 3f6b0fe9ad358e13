// A disk that fails, for the system tests: loaded into the service with LD_PRELOAD. What changes files below
// FAULTY_DISK_FOLDER (create, write, flush, truncate, rename, remove) is counted, and
//   FAULTY_DISK_KILL=N    the N-th of these kills the process: a write is half done by then, of the others the odd ones
//                         are done and the even ones are not
//   FAULTY_DISK_ERRNO=F   as long as there is a file F, all of these fail with the errno that it holds
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool is_below(const std::string& path) {
  static const std::string folder = variable("FAULTY_DISK_FOLDER");
  return !folder.empty() && path.starts_with(folder);
}

std::string path_of(int descriptor) {
  char link[64], path[4096];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const ssize_t size = ::readlink(link, path, sizeof path);
  return size > 0 ? std::string(path, static_cast<std::size_t>(size)) : "";
}

// 0: the disk is well.
int error_now() {
  static const std::string file = variable("FAULTY_DISK_ERRNO");
  if (file.empty()) return 0;
  static const auto real_open = next<int(const char*, int, ...)>("open");
  const int descriptor = real_open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return 0;
  char digits[16] = {};
  const ssize_t size = ::read(descriptor, digits, sizeof digits - 1);
  ::close(descriptor);
  return size > 0 ? std::atoi(digits) : 0;
}

// Whether this operation is the last one.
bool is_last(long& number) {
  static const long last = std::atol(variable("FAULTY_DISK_KILL").c_str());
  static std::atomic<long> count{0};
  number = ++count;
  return number == last;
}

[[noreturn]] void die() {
  ::kill(::getpid(), SIGKILL);
  for (;;) ::pause();
}

// part(): the operation as far as it gets in a process that is killed in the middle of it.
template <class Whole, class Part>
auto around(bool counts, Whole whole, Part part) -> decltype(whole()) {
  if (!counts) return whole();
  if (const int error = error_now()) {
    errno = error;
    return -1;
  }
  long number = 0;
  if (!is_last(number)) return whole();
  part(number);
  die();
}
template <class Whole>
auto around(bool counts, Whole whole) -> decltype(whole()) {
  return around(counts, whole, [&](long number) {
    if (number % 2 == 1) (void)whole();
  });
}

int opened(const char* name, const char* path, int flags, mode_t mode) {
  const bool changes = (flags & (O_CREAT | O_WRONLY | O_RDWR | O_TRUNC)) != 0 && is_below(path);
  return around(changes, [&] { return next<int(const char*, int, ...)>(name)(path, flags, mode); });
}

template <class Offset>
ssize_t written_at(const char* name, int descriptor, const void* bytes, std::size_t size, Offset offset) {
  const auto real = next<ssize_t(int, const void*, std::size_t, Offset)>(name);
  return around(
      is_below(path_of(descriptor)), [&] { return real(descriptor, bytes, size, offset); },
      [&](long) { (void)real(descriptor, bytes, size / 2, offset); });
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return opened("open", path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return opened("open64", path, flags, mode);
}
ssize_t write(int descriptor, const void* bytes, std::size_t size) {
  static const auto real = next<ssize_t(int, const void*, std::size_t)>("write");
  return around(
      is_below(path_of(descriptor)), [&] { return real(descriptor, bytes, size); },
      [&](long) { (void)real(descriptor, bytes, size / 2); });
}
ssize_t pwrite(int descriptor, const void* bytes, std::size_t size, off_t offset) {
  return written_at("pwrite", descriptor, bytes, size, offset);
}
ssize_t pwrite64(int descriptor, const void* bytes, std::size_t size, off64_t offset) {
  return written_at("pwrite64", descriptor, bytes, size, offset);
}
int fsync(int descriptor) {
  return around(is_below(path_of(descriptor)), [&] { return next<int(int)>("fsync")(descriptor); });
}
int fdatasync(int descriptor) {
  return around(is_below(path_of(descriptor)), [&] { return next<int(int)>("fdatasync")(descriptor); });
}
int ftruncate(int descriptor, off_t size) {
  return around(is_below(path_of(descriptor)), [&] { return next<int(int, off_t)>("ftruncate")(descriptor, size); });
}
int ftruncate64(int descriptor, off64_t size) {
  return around(is_below(path_of(descriptor)),
                [&] { return next<int(int, off64_t)>("ftruncate64")(descriptor, size); });
}
int rename(const char* from, const char* to) {
  return around(is_below(to), [&] { return next<int(const char*, const char*)>("rename")(from, to); });
}
int unlink(const char* path) {
  return around(is_below(path), [&] { return next<int(const char*)>("unlink")(path); });
}
int unlinkat(int folder, const char* path, int flags) {
  return around(is_below(folder == AT_FDCWD ? path : path_of(folder)),
                [&] { return next<int(int, const char*, int)>("unlinkat")(folder, path, flags); });
}
int mkdir(const char* path, mode_t mode) {
  return around(is_below(path), [&] { return next<int(const char*, mode_t)>("mkdir")(path, mode); });
}

}  // extern "C"
