// Ways to copy a large private buffer into shared memory, as a put does: which is fastest at which size. All take turns, block
// by block, on one thread, so that they see the same machine; source and destination stay the same, as in bench rma.
// Build: c++ -std=c++20 -O3 -march=native copies.cpp -o copies. Usage: taskset -c 0 ./copies [ROUNDS].
// Prints per size and way: median [least], us, from pages of 4 KiB and from pages of 2 MiB.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "kernels.h"

namespace {

constexpr size_t kMost = 64 << 20;
constexpr size_t kHugePage = 2 << 20;
constexpr size_t kPage = 4096;

using Way = void (*)(char* to, const char* from, size_t bytes);

void by_memcpy(char* to, const char* from, size_t bytes) { std::memcpy(to, from, bytes); }

void by_string(char* to, const char* from, size_t bytes) {
#if defined(__x86_64__)
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
#else
  std::memcpy(to, from, bytes);
#endif
}

void line(char* to, const char* from) {
  for (size_t at = 0; at < bench::kLine; at += sizeof(bench::Vec)) {
    bench::stream(reinterpret_cast<float*>(to + at), bench::load(reinterpret_cast<const float*>(from + at)));
  }
}

void by_streaming(char* to, const char* from, size_t bytes) {
  for (size_t at = 0; at < bytes; at += bench::kLine) line(to + at, from + at);
  bench::fence();
}

// kAhead: bytes between what is loaded and what is asked of memory.
template <size_t kAhead>
void by_prefetching(char* to, const char* from, size_t bytes) {
  for (size_t at = 0; at < bytes; at += bench::kLine) {
    __builtin_prefetch(from + at + kAhead, 0, 0);
    line(to + at, from + at);
  }
  bench::fence();
}

// Several pages side by side: more of the memory's banks are at work, and more of the processor's prefetchers.
template <size_t kPages>
void by_pages(char* to, const char* from, size_t bytes) {
  size_t done = 0;
  for (; bytes - done >= kPages * kPage; done += kPages * kPage) {
    for (size_t at = done; at < done + kPage; at += bench::kLine) {
      for (size_t page = 0; page < kPages; ++page) line(to + at + page * kPage, from + at + page * kPage);
    }
  }
  bench::fence();
  std::memcpy(to + done, from + done, bytes - done);
}

struct Named {
  const char* name;
  Way way;
};
constexpr Named kWays[] = {{"memcpy", by_memcpy},
                           {"rep movsb", by_string},
                           {"streaming", by_streaming},
                           {"prefetching 512", by_prefetching<512>},
                           {"prefetching 2048", by_prefetching<2048>},
                           {"2 pages", by_pages<2>},
                           {"4 pages", by_pages<4>}};
constexpr size_t kSizes[] = {64 << 10, 256 << 10, 1 << 20, 4 << 20, 8 << 20, 16 << 20, 64 << 20};

char* make(int fd, bool huge) {
  const int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  void* const all = mmap(nullptr, kMost + kHugePage, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (all == MAP_FAILED) std::abort();
  auto at = reinterpret_cast<uintptr_t>(all);
  at = (at + kHugePage - 1) / kHugePage * kHugePage;
  auto* const data = reinterpret_cast<char*>(at);
  madvise(data, kMost, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  std::memset(data, fd < 0 ? 1 : 0, kMost);
  return data;
}

double once(Way way, char* to, const char* from, size_t bytes) {
  const size_t repeats = std::max<size_t>(1, (1 << 20) / bytes);  // within one slice of a busy core
  const auto start = std::chrono::steady_clock::now();
  for (size_t i = 0; i < repeats; ++i) way(to, from, bytes);
  const std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - start;
  return spent.count() / static_cast<double>(repeats);
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 15;
  const int fd = memfd_create("copies", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, kMost + kHugePage) != 0) std::abort();
  char* const to = make(fd, true);
  const char* const sources[] = {make(-1, false), make(-1, true)};
  for (const size_t size : kSizes) {
    std::vector<double> times[std::size(kWays)][2];
    for (int round = 0; round < rounds; ++round) {
      for (size_t way = 0; way < std::size(kWays); ++way) {
        for (int huge = 0; huge < 2; ++huge) times[way][huge].push_back(once(kWays[way].way, to, sources[huge], size));
      }
    }
    for (size_t way = 0; way < std::size(kWays); ++way) {
      std::printf("%8zu KiB  %-16s", size >> 10, kWays[way].name);
      for (auto& one : times[way]) {
        std::sort(one.begin(), one.end());
        std::printf("  %9.1f [%9.1f]", one[one.size() / 2], one.front());
      }
      std::printf("\n");
    }
  }
  return 0;
}
