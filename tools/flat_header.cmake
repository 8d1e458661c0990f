# flat_header.cmake -- writes the header FROM to TO, where all headers are in one
# folder.
file(READ "${FROM}" text)
string(REGEX REPLACE "#include \"engine/[^\"]*/([^\"/]+)\"" "#include \"\\1\"" text
       "${text}")
file(WRITE "${TO}" "${text}")
