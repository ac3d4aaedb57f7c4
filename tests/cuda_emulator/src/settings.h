// What the environment says, read once when the library is first used. docs/cuda_emulator.md lists the variables.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "delays.h"

namespace cuemu {

struct Settings {
  int devices;                    // CUEMU_DEVICES
  size_t memory_bytes;            // CUEMU_MEMORY_MB: address space of each device; pages are taken as they are touched
  size_t poison_bytes;            // CUEMU_POISON_KB: fresh memory is filled with 0xFF up to this size
  std::chrono::seconds patience;  // CUEMU_PATIENCE_S: a host thread that waits longer fails the device and reports
  Delays delays;                  // CUEMU_DELAY_US, CUEMU_DELAY_RANDOM_US, CUEMU_DELAY_SEED: until a test sets others
  bool trace;                     // CUEMU_TRACE: every failing call goes to stderr
};

const Settings& settings();

}  // namespace cuemu
