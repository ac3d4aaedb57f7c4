// Monotonic time in nanoseconds, deadlines made of it, and how long to sleep. Any thread.
#pragma once

#include <ctime>

#include <algorithm>
#include <cstdint>

namespace pycomms {

inline int64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

inline constexpr int64_t kMicrosecond = 1'000;
inline constexpr int64_t kMillisecond = 1'000'000;
inline constexpr int64_t kSecond = 1'000'000'000;
inline constexpr int64_t kForever = int64_t{1} << 62;  // 146 years: the sum with now_ns() does not overflow

// Sleeps so long; may return early.
inline void sleep_for(int64_t ns) {
  const timespec nap{static_cast<time_t>(ns / kSecond), static_cast<long>(ns % kSecond)};
  nanosleep(&nap, nullptr);
}

// For poll() and epoll_wait(): rounded up, a minute at most.
inline int poll_ms(int64_t ns) {
  return static_cast<int>(std::min<int64_t>((ns + kMillisecond - 1) / kMillisecond, 60'000));
}

class Deadline {
 public:
  static Deadline after(int64_t ns) { return Deadline(now_ns() + std::clamp<int64_t>(ns, 0, kForever)); }
  static Deadline at(int64_t ns) { return Deadline(ns); }

  int64_t ns() const { return at_; }
  int64_t left(int64_t now = now_ns()) const { return std::max<int64_t>(at_ - now, 0); }
  bool passed(int64_t now = now_ns()) const { return now >= at_; }

 private:
  explicit Deadline(int64_t at) : at_(at) {}
  int64_t at_;
};

}  // namespace pycomms
