#include "exit.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdlib>

#include "device.h"
#include "log.h"

namespace cuemu {
namespace {

std::atomic<bool> forked{false};

void quiesce() {
  constexpr auto kMoment = std::chrono::seconds(2);
  if (is_forked_child()) return;  // the threads stayed with the parent
  const auto deadline = std::chrono::steady_clock::now() + kMoment;
  for (const Device* device : devices()) {
    for (const auto& stream : device->streams()) {
      if (!stream->quiesce(deadline)) log("still busy at exit: %s", stream->describe().c_str());
    }
  }
}

}  // namespace

void quiesce_at_exit() {
  static const bool registered = [] {
    std::atexit(quiesce);
    pthread_atfork(nullptr, nullptr, [] { forked.store(true, std::memory_order_relaxed); });
    return true;
  }();
  static_cast<void>(registered);
}

bool is_forked_child() { return forked.load(std::memory_order_relaxed); }

}  // namespace cuemu
