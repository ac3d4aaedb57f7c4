// The end of the process, and a forked child. At exit the streams begin no new work, and what runs is given a moment: work
// may call into libraries whose static objects are destroyed next.
#pragma once

namespace cuemu {

void quiesce_at_exit();  // any number of times
// Whether this process is a fork of one that had streams. As in CUDA, nothing works there.
bool is_forked_child();

}  // namespace cuemu
