// What the environment says, read once when the library is first used. docs/cuda_emulator.md lists the variables.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace cuemu {

struct Settings {
  int devices;                    // CUEMU_DEVICES
  size_t memory_bytes;            // CUEMU_MEMORY_MB: address space of each device; pages are taken as they are touched
  size_t poison_bytes;            // CUEMU_POISON_KB: fresh memory is filled with 0xFF up to this size
  std::chrono::seconds patience;  // CUEMU_PATIENCE_S: a host thread that waits longer fails the device and reports
  bool trace;                     // CUEMU_TRACE: every failing call goes to stderr
};

const Settings& settings();

}  // namespace cuemu
