# embed.cmake -- cmake -DTEMPLATE=FILE -DNAME=symbol -DTO=FILE.c -P embed.cmake
#
# Writes C source that defines `const char NAME[]`: the template, in which each line
# that is @FILE name@ is replaced by that file of the template's folder.
get_filename_component(folder ${TEMPLATE} DIRECTORY)
file(READ ${TEMPLATE} text)
string(REGEX MATCHALL "@FILE [a-z.]+@" parts "${text}")
foreach(part IN LISTS parts)
  string(REGEX REPLACE "@FILE ([a-z.]+)@" "\\1" file ${part})
  file(READ ${folder}/${file} body)
  string(REPLACE "${part}\n" "${body}" text "${text}")
endforeach()
# A file, because only files are read as hexadecimal digits.
file(WRITE ${TO}.txt "${text}")
file(READ ${TO}.txt digits HEX)
string(REGEX REPLACE "(................................)" "\\1\n    " digits "${digits}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1, " digits "${digits}")
file(WRITE ${TO} "/* Made by tools/embed.cmake. */\nextern const char ${NAME}[];\n"
     "const char ${NAME}[] = {\n    ${digits}0\n};\n")
