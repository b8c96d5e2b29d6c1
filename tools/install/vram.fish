# fish completion of vram: the command itself says what may stand for the last word
function __vram_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    for line in ($words[1] complete $words[2..-1] "$current" 2>/dev/null)
        if test "$line" = '<file>'
            __fish_complete_path "$current"
        else
            echo $line
        end
    end
end
complete -c vram -f -a '(__vram_complete)'
