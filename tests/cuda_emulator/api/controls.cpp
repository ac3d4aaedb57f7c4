// Exported: what emulator.h declares.

#include "emulator.h"

#include <dlfcn.h>

#include <memory>
#include <set>
#include <string>

#include "abi.h"
#include "api/entry.h"
#include "api/resolve.h"
#include "delays.h"
#include "log.h"
#include "submission.h"

#pragma GCC visibility push(default)

namespace {

using namespace cuemu;
using namespace cuda_abi;

thread_local std::string explanation;

StreamHandle handle_of(void* stream) { return static_cast<StreamHandle>(stream); }

// The argument of a cuemu_launch: destroyed with the last copy of the work.
struct Argument {
  int (*run)(void*);
  void (*destroy)(void*);
  void* arg;
  bool is_taken = false;

  ~Argument() {
    if (is_taken && destroy != nullptr) destroy(arg);
  }
};

void say_once(const char* function) {
  static auto& mutex = *new std::mutex;
  static auto& said = *new std::set<std::string>;
  const std::lock_guard lock(mutex);
  if (said.insert(function).second) log("%s is not emulated", function);
}

// Not an Entry: controls are not counted, and leave the thread's last error alone.
template <class Body>
int guarded(Body&& body) {
  try {
    body();
    return kSuccess;
  } catch (const Failure& failure) {
    return failure.code;
  }
}

}  // namespace

void* cuemu_bytes(const void* pointer) { return host_view(pointer); }

int cuemu_device_of(const void* pointer) {
  const Device* device = device_of(pointer);
  return device == nullptr ? -1 : device->index;
}

int cuemu_check(const void* pointer, size_t bytes) {
  return guarded([&] { check_access(pointer, bytes); });
}

int cuemu_launch(void* stream, const char* what, int (*run)(void*), void (*destroy)(void*), void* arg) {
  static Entry entry("cuemu_launch");
  return entry.call([&] {
    const auto argument = std::make_shared<Argument>(Argument{run, destroy, arg});
    const Op op{.what = what, .type = kKernelNode, .run = [argument] {
                  explanation.clear();
                  const int error = argument->run(argument->arg);
                  if (error != kSuccess) fail(static_cast<Error>(error), explanation);
                }};
    const auto target = stream_of(handle_of(stream));
    const std::lock_guard lock(submission_mutex());
    submit_locked(*target, op);
    argument->is_taken = true;
  });
}

void cuemu_explain(const char* text) { explanation = text; }

void cuemu_set_delays(uint64_t fixed_us, uint64_t random_us, uint64_t seed) {
  using Microseconds = std::chrono::microseconds;
  set_delays({Microseconds(fixed_us), Microseconds(random_us), seed});
}

int cuemu_inject(const char* function, int error, uint64_t skip, uint64_t times) {
  if (dlsym(RTLD_DEFAULT, function) == nullptr) return kInvalidValue;
  fault_point(function).arm({static_cast<Error>(error), skip, times});
  return kSuccess;
}

int cuemu_inject_work(int device, int error, uint64_t skip, uint64_t times) {
  if (error == kSuccess) return kInvalidValue;
  return guarded([&] { device_at(device).work.arm({static_cast<Error>(error), skip, times}); });
}

int cuemu_fail_device(int device, int error, const char* text) {
  return guarded([&] { device_at(device).set_failure({static_cast<Error>(error), text}); });
}

int cuemu_heal_device(int device) {
  return guarded([&] { device_at(device).heal(); });
}

void cuemu_clear_faults() {
  for (const auto& [name, point] : all_fault_points()) point->disarm();
  for (Device* device : devices()) device->work.disarm();
}

uint64_t cuemu_calls(const char* function) { return fault_point(function).count(); }

void cuemu_reset_calls() {
  for (const auto& [name, point] : all_fault_points()) point->reset_count();
}

void cuemu_each_call(void (*visit)(const char* function, uint64_t calls, void* arg), void* arg) {
  for (const auto& [name, point] : all_fault_points()) visit(name.c_str(), point->count(), arg);
}

uint64_t cuemu_work_count(int device) { return device_at(device).work.count(); }

int cuemu_hold(void* stream) {
  return guarded([&] { stream_of(handle_of(stream))->hold(); });
}

int cuemu_release(void* stream) {
  return guarded([&] { stream_of(handle_of(stream))->release(); });
}

int cuemu_has_context(int device) { return device_at(device).is_active(); }

void cuemu_count_live(cuemu_live* live) {
  const Handles& all = handles();
  *live = {.streams = all.streams.size(),
           .events = all.events.size(),
           .graphs = all.graphs.size(),
           .graph_execs = all.graph_execs.size(),
           .user_objects = all.user_objects.size(),
           .pools = all.pools.size(),
           .device_bytes = 0};
  for (const Device* device : devices()) live->device_bytes += device->memory.in_use();
}

int cuemu_unsupported(const char* function) {
  say_once(function);
  Entry entry(function);
  return entry.call_always([] { fail(kNotSupported); });
}

int cuemu_unsupported_driver(const char* function) {
  say_once(function);
  fault_point(function).pass();
  return kNotSupported;
}

#pragma GCC visibility pop
