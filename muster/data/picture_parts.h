// What the rest of this folder asks of pictures/, which nobody else in it names: the source "pictures" of job files,
// and what `muster init` looks at.
//
// The source is a folder of classes, or one with train/ and test/ (or val/, validation/) in it; or a folder and a CSV
// file of labels for the pictures in it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "muster/data/open_alike.h"
#include "muster/data/sources.h"

namespace muster::data {

// Samples become SourceOptions::shape. Without a test folder SourceOptions::test_fraction of the pictures is held out.
// The augmentation random-resized-crop is done here, while decoding; the other steps are open_source's.
// Throws Error{kInvalidInput, kNotFound, kIo}, kMismatch if the two folders have different classes, and kDamaged if no
// picture can be decoded.
Data open_pictures(const SourceOptions& options);

// One picture, a folder of pictures (no targets), or a folder of the classes of the form; of pictures with labels also
// a CSV file of labels, for pictures in its folder. Rows of it that cannot be used are reported to `bad`.
Alike alike_pictures(const SourceOptions& options, const DataForm& form, const std::filesystem::path& path,
                     BadSamples& bad);

// Whether a file's name ends as that of a picture.
bool is_picture_name(const std::filesystem::path& path);
// A picture's name as the folder has it: as it stands, or with the ending of a picture. Nothing if neither is there.
std::optional<std::string> find_picture(const std::filesystem::path& folder, const std::string& name);

// Of some of these pictures, evenly spread: half of them have a shorter side of at least so many pixels. Rounded up to
// a multiple of 16, from 32 up to 224, which is what models for photographs take, and also what is given where none can
// be read. Decodes headers only.
std::int64_t usual_side(std::span<const std::filesystem::path> pictures);

}  // namespace muster::data
