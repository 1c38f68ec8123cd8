// The names of the classes that the model of a state folder knows, by label, kept there in the file `classes`.
#pragma once

#include <string>
#include <vector>

#include "agent/state/file_ops.h"

namespace starling {

// Empty: there is no such file. Throws std::runtime_error as read_private_file does, and for another content than a
// JSON array of at most 256 texts.
std::vector<std::string> read_class_names(const std::string& folder);

// Durably. Throws as write_private_file does.
void write_class_names(const std::string& folder, const std::vector<std::string>& names, FileOps& files);

// "[\"cat\",\"dog\"]"; bytes that are no UTF-8 are replaced.
std::string print_class_names(const std::vector<std::string>& names);

// Where the classes of data and of a model differ first: class 1 is "dog", and "cow" in the model. Empty: they are
// the same, or one of both has no names.
std::string class_difference(const std::vector<std::string>& data, const std::vector<std::string>& model);

}  // namespace starling
