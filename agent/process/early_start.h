// What has to stand before any library, and so any file, socket or thread of this process. For .preinit_array.
#pragma once

namespace starling {

// Descriptors 0 to 2 that are closed lead to /dev/null: what is opened later must not get log lines or tables.
// SIGINT, SIGTERM and SIGHUP wait, also for process 1 of a container, until StopSignals takes them or
// release_signals() is called.
void hold_streams_and_signals(int, char**, char**);

// For a command that saves nothing: those signals end it, also as process 1, where the kernel would drop them.
void release_signals();

}  // namespace starling
