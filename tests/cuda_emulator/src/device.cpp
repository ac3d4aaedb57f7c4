#include "device.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <utility>

#include "exit.h"
#include "log.h"
#include "settings.h"
#include "touch.h"

namespace cuemu {
namespace {

thread_local int current_index = 0;
std::atomic<uint64_t> stream_count{0};

// The per-thread default streams of one thread, by device.
struct ThreadStreams {
  std::vector<std::shared_ptr<Stream>> streams;
  ~ThreadStreams() {
    for (auto& stream : streams) {
      if (stream) stream->device.retire(std::move(stream));
    }
  }
};
thread_local ThreadStreams thread_streams;

}  // namespace

Failure Device::failure() const {
  if (!has_failed()) return {cuda_abi::kSuccess, {}};
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Device::check() const {
  if (has_failed()) throw failure();
}

void Device::set_failure(Failure failure) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_.code != cuda_abi::kSuccess) return;  // the first is kept
    failure_ = failure;
    failed_.store(true, std::memory_order_release);
  }
  log("cuda:%d has failed with error %d: %s", index, failure.code, failure.text.c_str());
}

void Device::heal() {
  const std::lock_guard lock(mutex_);
  failure_ = {cuda_abi::kSuccess, {}};
  failed_.store(false, std::memory_order_release);
}

std::shared_ptr<Stream> Device::create_stream(unsigned flags, int priority) {
  reap();
  quiesce_at_exit();
  auto stream = std::make_shared<Stream>(*this, flags, priority, stream_count.fetch_add(1));
  const std::lock_guard lock(mutex_);
  streams_.push_back(stream);
  return stream;
}

void Device::retire(std::shared_ptr<Stream> stream) {
  stream->close();
  {
    const std::lock_guard lock(mutex_);
    std::erase(streams_, stream);
    retired_.push_back(std::move(stream));
  }
  reap();
}

// Joins the threads that have ended. Their last instructions may still run, so this can block for an instant.
void Device::reap() {
  std::vector<std::shared_ptr<Stream>> finished;
  const std::lock_guard lock(mutex_);
  const auto middle =
      std::partition(retired_.begin(), retired_.end(), [](const auto& stream) { return !stream->has_finished(); });
  std::move(middle, retired_.end(), std::back_inserter(finished));
  retired_.erase(middle, retired_.end());
}

std::shared_ptr<Stream> Device::legacy_stream() {
  std::call_once(legacy_made_, [this] { legacy_ = create_stream(0, 0); });
  return legacy_;
}

std::shared_ptr<Stream> Device::thread_stream() {
  auto& mine = thread_streams.streams;
  if (mine.size() <= static_cast<size_t>(index)) mine.resize(index + 1);
  if (!mine[index]) mine[index] = create_stream(0, 0);
  return mine[index];
}

std::vector<std::shared_ptr<Stream>> Device::streams() const {
  const std::lock_guard lock(mutex_);
  auto all = streams_;
  all.insert(all.end(), retired_.begin(), retired_.end());
  return all;
}

void Device::wait(const Point& point) {
  constexpr auto kLook = std::chrono::milliseconds(50);
  const auto deadline = std::chrono::steady_clock::now() + settings().patience;
  while (!point.wait(std::chrono::steady_clock::now() + kLook)) {
    check();
    if (std::chrono::steady_clock::now() < deadline) continue;
    std::string report = "a host thread has waited for too long (CUEMU_PATIENCE_S)";
    for (const Device* device : devices()) {
      for (const auto& stream : device->streams()) {
        if (!stream->is_idle()) report += "; " + stream->describe();
      }
    }
    set_failure({cuda_abi::kLaunchTimeout, report});
  }
  check();
}

void Device::synchronize() {
  for (const auto& stream : streams()) wait(stream->tail());
  check();
}

const std::vector<Device*>& devices() {
  static const auto& all = *[] {
    auto* made = new std::vector<Device*>;
    for (int i = 0; i < settings().devices; ++i) made->push_back(new Device(i, settings().memory_bytes));
    return made;
  }();
  static std::once_flag explained;  // its handler asks for the devices
  std::call_once(explained, explain_host_access);
  return all;
}

Device& device_at(int index) {
  require(index >= 0 && std::cmp_less(index, devices().size()), cuda_abi::kInvalidDevice);
  return *devices()[index];
}

Device& current_device() { return device_at(current_index); }

void set_current_device(int index) {
  device_at(index).activate();
  current_index = index;
}

Device* device_of(const void* address) {
  for (Device* device : devices()) {
    if (device->memory.contains(address)) return device;
  }
  return nullptr;
}

std::byte* host_view(const void* address) {
  const Device* device = device_of(address);
  return device ? device->memory.bytes_at(address) : static_cast<std::byte*>(const_cast<void*>(address));
}

void check_access(const void* address, size_t bytes) {
  const Device* device = device_of(address);
  if (device == nullptr || device->memory.is_live(address, bytes)) return;
  char text[160];
  std::snprintf(text, sizeof text, "%zu bytes at %p of cuda:%d are not all in a live allocation", bytes, address,
                device->index);
  fail(cuda_abi::kIllegalAddress, text);
}

}  // namespace cuemu
