#include "delays.h"

#include <atomic>
#include <mutex>
#include <thread>

#include "settings.h"

namespace cuemu {
namespace {

std::mutex& mutex() {
  static auto& leaked = *new std::mutex;
  return leaked;
}

// Guarded by mutex().
Delays& current() {
  static Delays delays = settings().delays;
  return delays;
}

std::atomic<uint64_t> generation{1};  // grows with each change of current()

}  // namespace

void set_delays(const Delays& delays) {
  const std::lock_guard lock(mutex());
  current() = delays;
  generation.fetch_add(1, std::memory_order_release);
}

void DelaySource::pause() {
  const uint64_t now = generation.load(std::memory_order_acquire);
  if (now != generation_) {
    const std::lock_guard lock(mutex());
    delays_ = current();
    generation_ = now;
    std::seed_seq seed{static_cast<uint32_t>(delays_.seed), static_cast<uint32_t>(delays_.seed >> 32),
                       static_cast<uint32_t>(number_)};
    random_.seed(seed);
  }
  auto pause = delays_.fixed;
  if (delays_.random.count() > 0) {
    pause += std::chrono::microseconds(random_() % static_cast<uint64_t>(delays_.random.count() + 1));
  }
  if (pause.count() > 0) std::this_thread::sleep_for(pause);
}

}  // namespace cuemu
