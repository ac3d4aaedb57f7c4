// A named thread that takes no signals: those are for the threads of the application.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/status.h"

namespace pycomms {

// name: at most 15 characters. An error when the system has no thread left.
template <typename Body>
Result<std::thread> start_thread(const char* name, Body&& body) {
  struct Masked {
    sigset_t before;
    Masked() {
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, &before);
    }
    ~Masked() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
  } masked;
  try {
    return std::thread([name = std::string(name).substr(0, 15), body = std::forward<Body>(body)]() mutable {
      pthread_setname_np(pthread_self(), name.c_str());
      body();
    });
  } catch (const std::system_error& error) {
    return Status(Code::kSystem, std::string("starting thread ") + name + ": " + error.what());
  }
}

}  // namespace pycomms
