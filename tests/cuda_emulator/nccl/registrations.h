// What a program has registered with communicators: numbers that are never used twice, and what stands behind them.
// Threads: any.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "inner.h"

namespace nccl_emulator {

struct Registration {
  Comm comm;
  void* start;
  size_t size;
  int window;  // its number on the communicator; -1: a buffer
};

// Numbers that programs hold as pointers.
void* add_registration(const Registration& registration);
std::optional<Registration> find_registration(const void* number);
bool remove_registration(Comm comm, const void* number);
void forget_registrations(Comm comm);  // it is gone

struct RegistrationCounts {
  size_t windows = 0;
  size_t buffers = 0;
};
RegistrationCounts count_registrations();

}  // namespace nccl_emulator
