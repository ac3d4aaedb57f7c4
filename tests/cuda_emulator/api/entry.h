// The frame around every exported function: count the call, fail it on order, refuse it when the device has failed, turn
// what the body throws into the return value, and keep the last error of the thread. A function looks like this:
//
//   CUEMU_EXPORT Error cudaThing(int argument) {
//     static Entry entry("cudaThing");
//     return entry.call([&] { do_thing(argument); });
//   }
#pragma once

#include <exception>
#include <new>

#include "failure.h"
#include "faults.h"

namespace cuemu {

// The calling thread's last error. take: and forget it.
Error peek_last_error();
Error take_last_error();

class Entry {
 public:
  explicit Entry(const char* name) : name_(name), point_(fault_point(name)) {}

  template <class Body>
  Error call(Body&& body) noexcept {
    return guard(body, /*refuse_on_failed_device=*/true);
  }

  // For what works, or must release something, on a failed device too.
  template <class Body>
  Error call_always(Body&& body) noexcept {
    return guard(body, /*refuse_on_failed_device=*/false);
  }

 private:
  template <class Body>
  Error guard(Body& body, bool refuse_on_failed_device) noexcept {
    try {
      enter(refuse_on_failed_device);
      body();
      return cuda_abi::kSuccess;
    } catch (const Failure& failure) {
      return refuse(failure.code, failure.text.c_str());
    } catch (const std::bad_alloc&) {
      return refuse(cuda_abi::kMemoryAllocation, "no host memory");
    } catch (const std::exception& error) {
      return refuse(cuda_abi::kUnknown, error.what());
    }
  }

  void enter(bool refuse_on_failed_device);
  Error refuse(Error error, const char* why) noexcept;

  const char* const name_;
  FaultPoint& point_;
};

}  // namespace cuemu
