#include "base/writable.h"

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <memory>

namespace pycomms {
namespace {

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace

bool is_writable(const void* data, size_t bytes) {
  const auto first = reinterpret_cast<uintptr_t>(data);
  const std::unique_ptr<std::FILE, Close> maps(std::fopen("/proc/self/maps", "re"));
  if (!maps) return true;
  for (;;) {
    uintptr_t begin = 0, end = 0;
    char readable = 0, writable = 0;
    const int got =
        std::fscanf(maps.get(), "%" SCNxPTR "-%" SCNxPTR " %c%c%*[^\n]", &begin, &end, &readable, &writable);
    if (got != 4 || begin >= first + bytes) return true;  // in the order of their addresses
    if (first < end && bytes > 0 && writable != 'w') return false;
  }
}

}  // namespace pycomms
